package embedded

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// maxSocketPath keeps clear of the 104 bytes (BSD, macOS) and 108 bytes (Linux)
// that a unix socket's address holds.
const maxSocketPath = 100

// Config says what server to start. Only Dir has no default.
type Config struct {
	// Binary is the server to run. Default: what Find returns.
	Binary string

	// Dir is where the server keeps its files. It is made, for this user only,
	// when it does not exist. Required; two servers in one Dir destroy each
	// other's files.
	Dir string

	// Socket is the path of the unix socket, at most 100 bytes. Default: a file
	// in Dir, or, when that path is too long, in a directory for this user only
	// under os.TempDir, named by a hash of Dir.
	Socket string

	// Listen is a TCP address on loopback to serve as well, as in
	// "127.0.0.1:6379"; port 0 picks a free one. Default: none, unless Cluster
	// needs one. Other than loopback is refused: the server has no password.
	Listen string

	// AppendOnly keeps the data in an append-only file. Default: they are gone
	// when the server ends.
	AppendOnly bool

	// Cluster makes the server a cluster of one node that owns all slots. It
	// needs TCP: Listen is "127.0.0.1:0" by default then.
	Cluster bool

	// Member makes the server a node in cluster mode that is of no cluster yet and
	// owns no slots: the caller makes it part of one. It needs TCP as Cluster does,
	// and excludes it.
	Member bool

	// File is a configuration file, read before all arguments. A sentinel needs
	// one, and rewrites it. Default: none.
	File string

	// Args are more arguments for the server, as in "--maxmemory", "20mb". They
	// come last and so win.
	Args []string

	// Log receives what the server logs. Default: it is dropped, but its last
	// lines stand in the error of a start that failed.
	Log io.Writer
}

func (c *Config) setDefaults() error {
	if c.Binary == "" {
		path, err := Find()
		if err != nil {
			return err
		}
		c.Binary = path
	}
	if c.Dir == "" {
		return errors.New("embedded: Config.Dir is required")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	c.Dir = dir
	if c.Socket == "" {
		c.Socket = defaultSocket(dir)
	}
	if c.clustered() && c.Listen == "" {
		c.Listen = loopback + ":0"
	}
	return nil
}

// clustered says whether the server is in cluster mode.
func (c *Config) clustered() bool { return c.Cluster || c.Member }

func (c *Config) validate() error {
	if len(c.Socket) > maxSocketPath {
		return fmt.Errorf("embedded: socket path %q has %d bytes, at most %d fit", c.Socket, len(c.Socket), maxSocketPath)
	}
	if c.Listen == "" {
		return nil
	}
	_, _, err := splitListen(c.Listen)
	return err
}

// splitListen takes a loopback address apart.
func splitListen(listen string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, fmt.Errorf("embedded: listen address %q: %w", listen, err)
	}
	switch host {
	case "", "localhost":
		host = loopback
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return "", 0, fmt.Errorf("embedded: listen address %q is not on loopback; the embedded server has no password", listen)
	}
	port, err = strconv.Atoi(p)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("embedded: listen address %q: port %q is not in 0..65535", listen, p)
	}
	return host, port, nil
}

func defaultSocket(dir string) string {
	if s := filepath.Join(dir, "server.sock"); len(s) <= maxSocketPath {
		return s
	}
	// The user is part of the hash, so that two users who were given one long
	// path do not meet in one directory.
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s", os.Getuid(), dir))
	return filepath.Join(os.TempDir(), "echomq-"+hex.EncodeToString(sum[:8]), "server.sock")
}

// makeDirs makes the directories of the data and of the socket.
func (c *Config) makeDirs() error {
	for _, dir := range []string{c.Dir, filepath.Dir(c.Socket)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("embedded: %w", err)
		}
	}
	// A directory under os.TempDir could have been made by someone else, who
	// could then replace the socket: the name can be guessed.
	if dir := filepath.Dir(c.Socket); dir != c.Dir && filepath.Dir(dir) == filepath.Clean(os.TempDir()) {
		return ownedByUs(dir)
	}
	return nil
}

// loopback is where TCP is served when no host is named.
const loopback = "127.0.0.1"

// args are the server's arguments; port is the TCP port, 0 for none, bus the
// port of the cluster bus. The host is bound even without a port: a later
// CONFIG SET port must not open the server to the network.
func (c *Config) args(host string, port, bus int) []string {
	var a []string
	if c.File != "" {
		a = append(a, c.File)
	}
	a = append(a,
		"--unixsocket", c.Socket, "--unixsocketperm", "700",
		"--dir", c.Dir, "--save", "", "--appendonly", yesno(c.AppendOnly),
		"--bind", host, "--port", strconv.Itoa(port), "--protected-mode", "yes",
	)
	if c.clustered() {
		a = append(a, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus), "--cluster-announce-ip", host)
	}
	return append(a, c.Args...)
}

func yesno(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// environ is what the server sees of our environment: nothing that could be a
// secret of ours, or change what the server does.
func environ() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "LANG", "TZ"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
