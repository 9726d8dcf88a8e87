// gpu-plugin offers pretended GPUs to the kubelet: gpu-plugin COUNT
//
// It registers them as nvidia.com/gpu, again whenever the kubelet has restarted, and tells a container which it got.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const resource = "nvidia.com/gpu"

var (
	kubeletSocket = filepath.Join(api.DevicePluginPath, "kubelet.sock")
	ownSocket     = filepath.Join(api.DevicePluginPath, "pretended-gpus.sock")
)

type plugin struct {
	api.UnimplementedDevicePluginServer
	count int
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (p *plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	var devices []*api.Device
	for number := 0; number < p.count; number++ {
		devices = append(devices, &api.Device{ID: fmt.Sprintf("GPU-%04d", number), Health: api.Healthy})
	}
	if err := stream.Send(&api.ListAndWatchResponse{Devices: devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (p *plugin) Allocate(_ context.Context, asked *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	for _, container := range asked.ContainerRequests {
		variables := map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ",")}
		answer.ContainerResponses = append(answer.ContainerResponses, &api.ContainerAllocateResponse{Envs: variables})
	}
	return answer, nil
}

// serve answers the kubelet until the returned server is stopped.
func serve(count int) *grpc.Server {
	os.Remove(ownSocket)
	listener, err := net.Listen("unix", ownSocket)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, &plugin{count: count})
	go server.Serve(listener)
	return server
}

func register() error {
	connection, err := grpc.NewClient("unix://"+kubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	limited, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	request := &api.RegisterRequest{Version: api.Version, Endpoint: filepath.Base(ownSocket), ResourceName: resource}
	_, err = api.NewRegistrationClient(connection).Register(limited, request)
	return err
}

// waitForRestart returns when the kubelet has made another socket, or has removed ours, as it does when it starts.
func waitForRestart(before os.FileInfo) {
	for {
		time.Sleep(500 * time.Millisecond)
		now, err := os.Stat(kubeletSocket)
		_, ownErr := os.Stat(ownSocket)
		if err != nil || ownErr != nil || !now.ModTime().Equal(before.ModTime()) {
			return
		}
	}
}

func main() {
	count, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	for ; ; time.Sleep(200 * time.Millisecond) {
		kubelet, err := os.Stat(kubeletSocket)
		if err != nil {
			continue
		}
		server := serve(count)
		err = register()
		log.Println("registered with the kubelet:", err)
		if err == nil {
			waitForRestart(kubelet)
		}
		server.Stop()
	}
}
