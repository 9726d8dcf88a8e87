// etcd is a store of one member, on loopback: etcd DATA-FOLDER CLIENT-PORT PEER-PORT
package main

import (
	"log"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
)

func loopback(port string) []url.URL {
	return []url.URL{{Scheme: "http", Host: "127.0.0.1:" + port}}
}

func main() {
	clients, peers := loopback(os.Args[2]), loopback(os.Args[3])
	config := embed.NewConfig()
	config.Name, config.Dir, config.LogLevel = "tests", os.Args[1], "warn"
	config.UnsafeNoFsync = true // no test needs its data after a power cut
	config.ListenClientUrls, config.AdvertiseClientUrls = clients, clients
	config.ListenPeerUrls, config.AdvertisePeerUrls = peers, peers
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	server, err := embed.StartEtcd(config)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(<-server.Err())
}
