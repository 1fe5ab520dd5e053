package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/embedded"
)

// servers are those that a measurement starts for itself, with what is connected to them.
type servers struct {
	dir     string
	list    []*embedded.Server
	clients []*tier.Client
	arenas  []*arena
}

func newServers() (*servers, error) {
	dir, err := os.MkdirTemp("", "pipeline-bench-")
	return &servers{dir: dir}, err
}

// start starts one, over TCP as between machines.
func (s *servers) start(ctx context.Context, cfg embedded.Config) (*embedded.Server, error) {
	cfg.Dir, cfg.Listen = filepath.Join(s.dir, strconv.Itoa(len(s.list))), "127.0.0.1:0"
	one, err := embedded.Start(ctx, cfg)
	if err == nil {
		s.list = append(s.list, one)
	}
	return one, err
}

// dial connects to them.
func (s *servers) dial(ctx context.Context, list ...*embedded.Server) (*tier.Client, error) {
	addrs := make([]string, len(list))
	for i := range list {
		addrs[i] = list[i].Addr()
	}
	client, err := tier.Dial(ctx, "valkey://"+strings.Join(addrs, ","), tier.Options{ClientName: "pipeline-bench"})
	if err == nil {
		s.clients = append(s.clients, client)
	}
	return client, err
}

// end stops all, and leaves nothing behind.
func (s *servers) end() (err error) {
	for _, a := range s.arenas {
		a.close()
	}
	for _, c := range s.clients {
		c.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), late)
	defer cancel()
	for _, one := range s.list {
		err = errors.Join(err, one.Stop(ctx))
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// wireTo is a connection to one server, whatever it is part of.
func wireTo(ctx context.Context, s *embedded.Server) (*wire, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, s.Network(), s.Addr())
	if err != nil {
		return nil, err
	}
	return &wire{tier.NewConn(conn, readBuffer)}, nil
}

// slots are those of a cluster; slotsOf the first of the i-th of n nodes.
const slots = 16384

func slotsOf(i, n int) int { return i * slots / n }

// cluster makes servers one cluster, whose nodes have equal parts of the slots.
func (s *servers) cluster(ctx context.Context, n int) error {
	wires := make([]*wire, n)
	for i := range wires {
		one, err := s.start(ctx, embedded.Config{Member: true, Args: []string{"--cluster-node-timeout", "5000"}})
		if err != nil {
			return err
		}
		if wires[i], err = wireTo(ctx, one); err != nil {
			return err
		}
		defer wires[i].Close()
	}
	bus, err := wires[0].ask(ctx, "CONFIG", "GET", "cluster-port")
	if err != nil {
		return err
	}
	pair, _ := bus.([]any)
	host, port, err := net.SplitHostPort(s.list[0].Addr())
	if err != nil || len(pair) != 2 {
		return fmt.Errorf("bench: CONFIG GET cluster-port answers %v: %w", bus, err)
	}
	for i, w := range wires {
		ask := [][]string{
			{"CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i + 1)},
			{"CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(slotsOf(i, n)), strconv.Itoa(slotsOf(i+1, n) - 1)},
		}
		if i > 0 {
			ask = append(ask, []string{"CLUSTER", "MEET", host, port, fmt.Sprint(pair[1])})
		}
		for _, words := range ask {
			if _, err := w.ask(ctx, words...); err != nil {
				return err
			}
		}
	}
	return none(ctx, "the cluster is not whole", func(ctx context.Context) (left int64, err error) {
		for _, w := range wires {
			info, err := w.ask(ctx, "CLUSTER", "INFO")
			if err != nil {
				return 0, err
			}
			text, _ := info.(string)
			if !strings.Contains(text, "cluster_state:ok") || !strings.Contains(text, "cluster_known_nodes:"+strconv.Itoa(n)+"\r") {
				left++
			}
		}
		return left, nil
	})
}
