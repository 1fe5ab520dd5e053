package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/tier/embedded"
)

// server is the command's flags.
type server struct {
	app         *app
	dir, listen string
	metrics     metrics
}

func serverCommand(a *app) *cobra.Command {
	s := &server{app: a}
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run the embedded server in the foreground and print its URL",
		Long: `Run the embedded server in the foreground and print its URL, until it is
interrupted. It is the server that the other commands share when they have no
URL, so they find the same data, and need not start it each time.

It serves a unix socket that only this user can reach, and with --listen TCP on
loopback too. It has no password: for other machines run a valkey-server of your
own.`,
		Example: `  pipeline server
  pipeline server --dir ./data --listen 127.0.0.1:6379`,
		Args: arguments(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.noURL("server"); err != nil {
				return err
			}
			return s.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.dir, "dir", "", "directory of its data (default: $PIPELINE_DIR, or the user's directory for application data)")
	f.Var(&value{kind: "ADDR", set: s.setListen}, "listen", "serve TCP at this address as well, as in 127.0.0.1:6379; port 0 picks one")
	_ = cmd.MarkFlagDirname("dir")
	s.metrics.flag(cmd)
	return cmd
}

func (s *server) setListen(text string) (err error) {
	if s.listen, err = listenAddress(text); err != nil {
		return err
	}
	host, _, _ := net.SplitHostPort(s.listen)
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return errors.New("want an address on loopback: the embedded server has no password; for other machines run valkey-server with one")
	}
	return nil
}

func (s *server) run(ctx context.Context) (err error) {
	ctx, cancel := s.app.bounded(ctx)
	defer cancel()
	if s.dir == "" {
		if s.dir, err = embedded.DefaultDir(); err != nil {
			return err
		}
	}
	stop, err := s.metrics.serve(ctx, s.app)
	if err != nil {
		return err
	}
	defer stop()
	lease, err := s.app.shareDir(ctx, s.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release(ctx, lease)) }()
	gone, err := watch(ctx, lease)
	if err != nil {
		return err
	}
	if err := s.announce(ctx, lease); err != nil {
		return err
	}
	<-gone
	if ctx.Err() == nil {
		return fmt.Errorf("the server has ended: see %s/server.log", lease.Dir())
	}
	return nil
}

// announce prints the URL, plain unless JSON was asked for: scripts read it.
func (s *server) announce(ctx context.Context, lease *embedded.Lease) (err error) {
	at := lease.URL()
	if s.listen != "" {
		if at, err = lease.Listen(ctx, s.listen); err != nil {
			return s.listenError(ctx, err)
		}
	}
	s.app.note("%s, data in %s; PIPELINE_URL=%s reaches it; Ctrl-C ends it", lease.Version(), lease.Dir(), at)
	if s.app.output != "json" {
		return s.app.print(at + "\n")
	}
	return s.app.printObject(map[string]string{"url": at, "dir": lease.Dir(), "server": lease.Version()})
}

// listenError finds out whether another program has the address: the server only says
// that it cannot listen.
func (s *server) listenError(ctx context.Context, err error) error {
	l, busy := (&net.ListenConfig{}).Listen(ctx, "tcp", s.listen)
	if busy != nil {
		return listenError("--listen", s.listen, busy)
	}
	l.Close()
	return err
}

// watch returns a channel that is closed when the server is gone, or ctx: a
// connection on which nothing is said ends then.
func watch(ctx context.Context, lease *embedded.Lease) (<-chan struct{}, error) {
	u, err := url.Parse(lease.URL())
	if err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", u.Path)
	if err != nil {
		return nil, fmt.Errorf("the server does not answer: %w", err)
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = conn.Read(make([]byte, 1))
	}()
	return gone, nil
}
