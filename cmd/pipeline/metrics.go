package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
	"github.com/echomq/pipeline/tier/stream"
)

// metrics is what --metrics ADDR serves. Without the flag, the registerer is nil
// and nothing is served.
type metrics struct {
	addr string
	reg  *prometheus.Registry
}

func (m *metrics) flag(cmd *cobra.Command) {
	cmd.Flags().Var(&value{kind: "ADDR", set: func(s string) (err error) {
		m.addr, err = listenAddress(s)
		return err
	}}, "metrics", "serve Prometheus metrics at http://ADDR/metrics; :9100 is on loopback")
}

// listenAddress reads HOST:PORT; without a host it is loopback.
func listenAddress(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", errors.New("want HOST:PORT, or :PORT for loopback")
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return "", errors.New("want a port from 0 to 65535")
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// listenError says what to do about an address that cannot be had.
func listenError(flag, addr string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s %s: the address is in use: choose another, or port 0", flag, addr)
	}
	return fmt.Errorf("%s %s: %w", flag, addr, err)
}

func (m *metrics) registerer() prometheus.Registerer {
	if m.reg == nil {
		return nil
	}
	return m.reg
}

// stream adds lag and ages of the groups, cursors and projections of a stream, in each of its partitions.
func (m *metrics) stream(ctx context.Context, client *tier.Client, addr tier.Address) error {
	if m.reg == nil {
		return nil
	}
	list, err := addresses(ctx, client, addr)
	if err != nil {
		return err
	}
	all := make([]string, len(list))
	for i, one := range list {
		all[i] = one.String()
	}
	groups, err := stream.NewGroupMetrics(client, all...)
	if err != nil {
		return err
	}
	cursors, err := stream.NewCursorMetrics(client, all...)
	if err != nil {
		return err
	}
	projections, err := projection.NewMetrics(client, all...)
	if err != nil {
		return err
	}
	return errors.Join(m.reg.Register(groups), m.reg.Register(cursors), m.reg.Register(projections))
}

// queue adds what a queue, its lanes and its schedules hold.
func (m *metrics) queue(client *tier.Client, name string) error {
	if m.reg == nil {
		return nil
	}
	jobs, err := queue.NewMetrics(client, name)
	if err != nil {
		return err
	}
	return m.reg.Register(jobs)
}

// serve answers until stop is called. It is called before anything is counted.
func (m *metrics) serve(ctx context.Context, a *app) (stop func(), err error) {
	if m.addr == "" {
		return func() {}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", m.addr)
	if err != nil {
		return nil, listenError("--metrics", m.addr, err)
	}
	at := listener.Addr().(*net.TCPAddr)
	if !at.IP.IsLoopback() {
		a.warn("--metrics %s: others on the network can read the metrics", m.addr)
	}
	m.reg = prometheus.NewRegistry()
	m.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.reg, promhttp.HandlerOpts{Registry: m.reg}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener) // ends with Close
	}()
	if at.IP.IsUnspecified() {
		at = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: at.Port} // one of all that it listens on
	}
	a.note("metrics: http://%s/metrics", at)
	return func() {
		_ = server.Close()
		<-ended
	}, nil
}
