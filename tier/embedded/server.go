package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"sync"
)

// Server is a server process that lives at most as long as this program. Its
// methods may be called from any goroutine.
type Server struct {
	cfg  Config
	host string
	port int // 0: no TCP
	bus  int

	mu      sync.Mutex // held while the process changes
	proc    *process
	version string
}

// Start starts a server and returns when it answers, has loaded its data and,
// with Config.Cluster, says that its cluster is complete. ctx bounds only the
// start. An error carries the last lines that the server logged.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := cfg.makeDirs(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, host: loopback}
	// A free port may be taken by another before the server has it, so a start
	// that fails on a port that we picked is tried again with another.
	const tries = 4
	var err error
	for range tries {
		if err = s.pickPorts(); err != nil {
			return nil, err
		}
		if err = s.start(ctx); err == nil {
			return s, nil
		}
		if !s.picked() || !errors.Is(err, errExited) || ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

// picked says whether a port is of our choice.
func (s *Server) picked() bool {
	_, port, err := splitListen(s.cfg.Listen)
	return s.cfg.Listen != "" && err == nil && (port == 0 || s.cfg.clustered())
}

func (s *Server) pickPorts() error {
	if s.cfg.Listen == "" {
		return nil
	}
	host, port, err := splitListen(s.cfg.Listen)
	if err != nil {
		return err
	}
	free, err := freePorts(host, 2)
	if err != nil {
		return err
	}
	s.host, s.port, s.bus = host, port, free[1]
	if port == 0 {
		s.port = free[0]
	}
	return nil
}

// freePorts returns n different ports that nobody listens on just now.
func freePorts(host string, n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			return nil, fmt.Errorf("embedded: no free port: %w", err)
		}
		defer l.Close() // all are held until all are known, so that they differ
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// start runs the process and waits for it; s.mu is held, or s is not shared yet.
func (s *Server) start(ctx context.Context) error {
	p, err := spawn(s.cfg.Binary, s.cfg.args(s.host, s.port, s.bus), s.cfg.Log)
	if err != nil {
		return err
	}
	version, err := ready(ctx, s.socket(), p.exited, s.cfg.Cluster)
	if err != nil {
		p.kill()
		return fmt.Errorf("embedded: start %s: %w; its log ends: %s", s.cfg.Binary, err, p.log)
	}
	s.proc, s.version = p, version
	return nil
}

func (s *Server) socket() endpoint { return endpoint{"unix", s.cfg.Socket} }

func (s *Server) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// URL is what tier.Dial takes: valkey://127.0.0.1:<port> when the server
// listens on TCP, else unix:///<path>.
func (s *Server) URL() string {
	if s.port != 0 {
		return "valkey://" + s.Addr()
	}
	return socketURL(s.cfg.Socket)
}

func socketURL(path string) string {
	return (&url.URL{Scheme: "unix", Path: path}).String()
}

// Addr is host:port when the server listens on TCP, else the socket's path.
func (s *Server) Addr() string {
	if s.port != 0 {
		return net.JoinHostPort(s.host, strconv.Itoa(s.port))
	}
	return s.cfg.Socket
}

// Network is "tcp" or "unix": Network and Addr are what net.Dial takes.
func (s *Server) Network() string {
	if s.port != 0 {
		return "tcp"
	}
	return "unix"
}

// Dir is the directory with the server's files.
func (s *Server) Dir() string { return s.cfg.Dir }

// Version is the server's name and version, as in "valkey 8.0.1".
func (s *Server) Version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Pid is the process id, of the last process when the server is not running.
func (s *Server) Pid() int { return s.process().cmd.Process.Pid }

// Exited is closed when the process has ended, for whatever reason. Restart
// begins a new one: ask again after it.
func (s *Server) Exited() <-chan struct{} { return s.process().exited }

// Stop asks the server to end and waits until it has; an append-only file is
// complete then. When ctx ends first, the server is killed and the error says
// so. A server that is not running is fine.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.stop(ctx)
}

// Kill ends the server as kill -9 does, and returns when it is gone.
func (s *Server) Kill() { s.process().kill() }

// Freeze stops the server where it stands, as a machine that hangs does:
// connections stay open, nothing is answered. It returns when the server does
// nothing any more. Thaw lets it go on.
func (s *Server) Freeze() error { return s.process().freeze() }

// Thaw undoes Freeze.
func (s *Server) Thaw() error { return s.process().signal(sigThaw) }

// Restart stops the server, when it is running, and starts it again in the same
// directory and at the same address. It returns when the server answers.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.proc.stop(ctx); err != nil {
		return err
	}
	return s.start(ctx)
}
