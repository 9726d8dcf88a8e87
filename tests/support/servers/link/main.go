// Link stands between a client and a server: as a line with latency and a limited rate, or as one that fails on demand.
//
// With -raw it passes bytes, TLS or not, and only delays them. Without, it understands HTTP, may speak TLS itself, and
// does to requests what was asked for on the admin port: POST /faults takes the struct below as JSON, GET /counts tells
// what has passed. The first line it prints is "<port> <admin port>".
package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Faults are what happens to requests; the zero value lets everything through.
type Faults struct {
	LatencyMS   int     `json:"latency_ms"`   // before each request
	Rate        float64 `json:"rate"`         // bytes a second of each answer
	Busy        int     `json:"busy"`         // every n-th request is answered 503 SlowDown
	BusySeconds float64 `json:"busy_seconds"` // every request is, for so long from now on
	RetryAfter  string  `json:"retry_after"`  // what those answers ask for
	Cut         int     `json:"cut"`          // every n-th answer ends after CutAt bytes of its body
	Reset       int     `json:"reset"`        // every n-th is reset there instead
	CutAt       int64   `json:"cut_at"`
	Flip        int     `json:"flip"`         // in every n-th answer the byte at CutAt is another
	CutUpload   int     `json:"cut_upload"`   // of every n-th body that is sent only CutAt bytes arrive, and nobody notices
	SkewSeconds int     `json:"skew_seconds"` // the server's clock seems to be so far ahead: a request that is late or early is refused
	Expired     string  `json:"expired"`      // whoever signs with this key is told from the ExpiredAt-th request on that it has expired
	ExpiredAt   int     `json:"expired_at"`
	ExpStatus   int     `json:"expired_status"` // how it is told: 403 ExpiredToken where nothing else is said
	ExpCode     string  `json:"expired_code"`
	UploadRate  float64 `json:"upload_rate"` // bytes a second of each body that is sent
	Methods     string  `json:"methods"`     // only requests of these count, e.g. "GET PUT"
	Match       string  `json:"match"`       // and only those whose path and query hold this
	Last        int     `json:"last"`        // and none after the last-th; 0: all
	Hook        string  `json:"hook"`        // an address that is called, once, before the HookAt-th request goes on
	HookAt      int     `json:"hook_at"`
}

type link struct {
	sync.Mutex
	faults Faults
	until  time.Time
	seen   int
	counts map[string]int
}

func (l *link) set(w http.ResponseWriter, r *http.Request) {
	var faults Faults
	if err := json.NewDecoder(r.Body).Decode(&faults); err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	l.Lock()
	defer l.Unlock()
	l.faults, l.seen, l.counts = faults, 0, map[string]int{}
	l.until = time.Now().Add(time.Duration(faults.BusySeconds * float64(time.Second)))
}

func (l *link) tell(w http.ResponseWriter, _ *http.Request) {
	l.Lock()
	defer l.Unlock()
	_ = json.NewEncoder(w).Encode(l.counts)
}

func (l *link) count(what string) {
	l.Lock()
	defer l.Unlock()
	l.counts[what]++
}

// next is the number of this request, 0 when faults do not concern it.
func (l *link) next(r *http.Request) (Faults, int, bool) {
	l.Lock()
	defer l.Unlock()
	l.counts[r.Method]++
	f := l.faults
	if (f.Methods != "" && !strings.Contains(f.Methods, r.Method)) || !strings.Contains(r.URL.RequestURI(), f.Match) {
		return f, 0, false
	}
	l.seen++
	if f.Last > 0 && l.seen > f.Last {
		return f, 0, false
	}
	return f, l.seen, time.Now().Before(l.until)
}

func every(n, number int) bool { return n > 0 && number > 0 && number%n == 0 }

type faulty struct {
	io.ReadCloser
	rate   float64
	left   int64
	ends   bool
	flips  bool
	passed int64
	start  time.Time
}

var errCut = errors.New("cut on demand")

func (f *faulty) Read(p []byte) (int, error) {
	if f.ends && f.left == 0 {
		return 0, errCut
	}
	if f.ends && int64(len(p)) > f.left {
		p = p[:f.left]
	}
	if f.rate > 0 && len(p) > 1<<14 {
		p = p[:1<<14]
	}
	n, err := f.ReadCloser.Read(p)
	if f.flips && f.passed <= f.left && f.left < f.passed+int64(n) {
		p[f.left-f.passed] ^= 1
	}
	f.passed += int64(n)
	if f.ends {
		f.left -= int64(n)
	}
	if f.rate > 0 {
		time.Sleep(time.Until(f.start.Add(time.Duration(float64(f.passed) / f.rate * float64(time.Second)))))
	}
	return n, err
}

type key struct{}

type fate struct {
	faults Faults
	number int
}

func (l *link) handler(to string) http.Handler {
	proxy := &httputil.ReverseProxy{
		Director:      func(r *http.Request) { r.URL.Scheme, r.URL.Host = "http", to; r.Header["X-Forwarded-For"] = nil },
		Transport:     &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true},
		FlushInterval: -1,
		BufferPool:    pool{},
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ModifyResponse: func(a *http.Response) error {
			fate := a.Request.Context().Value(key{}).(fate)
			f, n := fate.faults, fate.number
			if f.SkewSeconds != 0 {
				a.Header.Set("Date", time.Now().Add(time.Duration(f.SkewSeconds)*time.Second).UTC().Format(http.TimeFormat))
			}
			body := &faulty{ReadCloser: a.Body, rate: f.Rate, left: f.CutAt, start: time.Now()}
			body.ends, body.flips = every(f.Cut, n) || every(f.Reset, n), every(f.Flip, n)
			if body.ends || body.flips || body.rate > 0 {
				a.Body = body
			}
			return nil
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, n, busy := l.next(r)
		time.Sleep(time.Duration(f.LatencyMS) * time.Millisecond)
		if f.Hook != "" && n == f.HookAt {
			if answer, err := http.Get(f.Hook); err == nil {
				answer.Body.Close()
			}
		}
		if busy || every(f.Busy, n) {
			l.refuse(w, r, f, 503, "SlowDown", "Please reduce your request rate.")
			return
		}
		if f.Expired != "" && n >= f.ExpiredAt && strings.Contains(r.Header.Get("Authorization"), "="+f.Expired+"/") {
			l.refuse(w, r, f, cmp.Or(f.ExpStatus, 403), cmp.Or(f.ExpCode, "ExpiredToken"), "The provided token has expired.")
			return
		}
		if f.SkewSeconds != 0 && !inTime(r, f.SkewSeconds) {
			l.refuse(w, r, f, 403, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large.")
			return
		}
		if every(f.CutUpload, n) && r.ContentLength > f.CutAt {
			body := r.Body
			r.Body, r.ContentLength = io.NopCloser(io.LimitReader(body, f.CutAt)), f.CutAt
			r.Header.Set("Content-Length", fmt.Sprint(f.CutAt))
			defer io.Copy(io.Discard, body)
		}
		if f.UploadRate > 0 && n > 0 {
			r.Body = &faulty{ReadCloser: r.Body, rate: f.UploadRate, start: time.Now()}
		}
		if every(f.Reset, n) {
			defer reset(r)
		}
		proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, fate{f, n})))
	})
}

// inTime reports whether the request was signed at what is now for a clock that is ahead.
func inTime(r *http.Request, ahead int) bool {
	signed, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	late := time.Until(signed) - time.Duration(ahead)*time.Second
	return err == nil && late.Abs() < 15*time.Minute
}

func (l *link) refuse(w http.ResponseWriter, r *http.Request, f Faults, status int, code, words string) {
	l.count(fmt.Sprint(status))
	_, _ = io.Copy(io.Discard, r.Body)
	if f.RetryAfter != "" {
		w.Header().Set("Retry-After", f.RetryAfter)
	}
	if f.SkewSeconds != 0 {
		w.Header().Set("Date", time.Now().Add(time.Duration(f.SkewSeconds)*time.Second).UTC().Format(http.TimeFormat))
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	if r.Method != "HEAD" && code != "" {
		fmt.Fprintf(w, "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>%s</Message></Error>", code, words)
	}
}

type connection struct{}

// reset closes the connection so that the other end sees no orderly end.
func reset(r *http.Request) {
	c, _ := r.Context().Value(connection{}).(net.Conn)
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	if plain, ok := c.(*net.TCPConn); ok {
		_ = plain.SetLinger(0)
		_ = plain.Close()
	}
}

type pool struct{}

var buffers = sync.Pool{New: func() any { return make([]byte, 1<<18) }}

func (pool) Get() []byte  { return buffers.Get().([]byte) }
func (pool) Put(b []byte) { buffers.Put(b) } //nolint:staticcheck

// raw passes bytes both ways, each way delayed by half the latency and not faster than the rate.
func raw(listener net.Listener, to string, latency time.Duration, rate float64) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				return
			}
			go pass(client, server, latency/2, rate)
			pass(server, client, latency/2, rate)
		}()
	}
}

type delayed struct {
	data []byte
	due  time.Time
}

func pass(from, to net.Conn, delay time.Duration, rate float64) {
	defer to.Close()
	if delay == 0 && rate == 0 {
		_, _ = io.Copy(to, from) // the kernel splices
		return
	}
	line := make(chan delayed, 64)
	go func() {
		defer close(line)
		free := time.Now()
		for {
			buffer := buffers.Get().([]byte)
			n, err := from.Read(buffer[:1<<16])
			if n > 0 {
				now := time.Now()
				if free.Before(now) {
					free = now
				}
				if rate > 0 {
					free = free.Add(time.Duration(float64(n) / rate * float64(time.Second)))
				}
				line <- delayed{buffer[:n], free.Add(delay)}
			}
			if err != nil {
				return
			}
		}
	}()
	for chunk := range line {
		time.Sleep(time.Until(chunk.due))
		_, err := to.Write(chunk.data)
		buffers.Put(chunk.data[:cap(chunk.data)]) //nolint:staticcheck
		if err != nil {
			from.Close()
			for range line {
			}
			return
		}
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "where clients come")
	to := flag.String("to", "", "host:port of the server")
	onlyBytes := flag.Bool("raw", false, "pass bytes only")
	latency := flag.Duration("latency", 0, "of -raw, both ways together")
	rate := flag.Float64("rate", 0, "of -raw: bytes a second, each way of each connection")
	cert, private := flag.String("cert", "", "speak TLS with this certificate"), flag.String("key", "", "and this key")
	flag.Parse()
	listener := must(net.Listen("tcp", *listen))
	port := listener.Addr().(*net.TCPAddr).Port
	if *onlyBytes {
		fmt.Println(port, 0)
		raw(listener, *to, *latency, *rate)
		return
	}
	_ = must(url.Parse("http://" + *to))
	l := &link{counts: map[string]int{}}
	admin := must(net.Listen("tcp", "127.0.0.1:0"))
	control := http.NewServeMux()
	control.HandleFunc("/faults", l.set)
	control.HandleFunc("/counts", l.tell)
	go func() { log.Fatal(http.Serve(admin, control)) }()
	fmt.Println(port, admin.Addr().(*net.TCPAddr).Port)
	server := &http.Server{
		Handler:     l.handler(*to),
		ErrorLog:    log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connection{}, c) },
	}
	if *cert != "" {
		log.Fatal(server.ServeTLS(listener, *cert, *private))
	}
	log.Fatal(server.Serve(listener))
}
