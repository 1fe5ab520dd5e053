package tiertest

import (
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/echomq/pipeline/tier/embedded"
)

// Kind is a sort of server that the pipeline has to work on.
type Kind string

// The kinds, in the order in which EachServer runs them. Clusters are of one
// node: it owns all slots, and is as strict about them as a large one.
const (
	Valkey        Kind = "valkey"
	ValkeyCluster Kind = "valkey-cluster"
	Redis         Kind = "redis"
	RedisCluster  Kind = "redis-cluster"
)

var kinds = []Kind{Valkey, ValkeyCluster, Redis, RedisCluster}

// Cluster says whether servers of the kind are in cluster mode.
func (k Kind) Cluster() bool { return strings.HasSuffix(string(k), "-cluster") }

func (k Kind) binary() string { return strings.TrimSuffix(string(k), "-cluster") + "-server" }

// startLimit is generous: a cluster takes 2 s to call itself complete, and the
// machine may be busy with other packages' tests.
const startLimit = 30 * time.Second

// Server is a running server.
type Server struct {
	*embedded.Server
	Kind Kind

	private bool
	audit   *audit // nil: each audit has connections of its own
}

// kindsEnv chooses the kinds of EachServer: all, or some, as in
// PIPELINE_TEST_SERVERS=valkey,redis-cluster. Where CI is set it may say all only.
const (
	kindsEnv = "PIPELINE_TEST_SERVERS"
	allKinds = "all"
)

// kindsOf are those on which the test of a name runs: Valkey and Redis, one of them as a cluster. Which one is so by the name, so that
// a test runs on the same kinds always, and each kind runs half of the tests.
func kindsOf(test string, env func(string) string) ([]Kind, error) {
	list := env(kindsEnv)
	if list == allKinds {
		return kinds, nil
	}
	if list == "" || env("CI") != "" {
		if crc32.ChecksumIEEE([]byte(test))%2 == 0 {
			return []Kind{Valkey, RedisCluster}, nil
		}
		return []Kind{ValkeyCluster, Redis}, nil
	}
	var wanted []Kind
	for name := range strings.SplitSeq(list, ",") {
		k := Kind(strings.TrimSpace(name))
		if !slices.Contains(kinds, k) {
			return nil, fmt.Errorf("%s: no kind of server is called %q; there are %q, and %q", kindsEnv, k, kinds, allKinds)
		}
		wanted = append(wanted, k)
	}
	return wanted, nil
}

// EachServer runs f as a parallel subtest on a Valkey and on a Redis, one of which is a cluster (or on
// what PIPELINE_TEST_SERVERS says). The servers are shared by all tests of the binary: what f writes belongs into a
// Scope of its own, and what harms a server is for EachPrivate.
func EachServer(t *testing.T, f func(t *testing.T, s *Server)) {
	t.Helper()
	eachKind(t, func(t *testing.T, k Kind) { f(t, Shared(t, k)) })
}

// EachPrivate is EachServer with a Private server for each run of f.
func EachPrivate(t *testing.T, f func(t *testing.T, s *Server)) {
	t.Helper()
	eachKind(t, func(t *testing.T, k Kind) { f(t, Private(t, k)) })
}

func eachKind(t *testing.T, f func(t *testing.T, k Kind)) {
	t.Helper()
	wanted, err := kindsOf(t.Name(), os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range wanted {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			f(t, k)
		})
	}
}

// Shared returns the server of one kind that EachServer uses too.
func Shared(t testing.TB, k Kind) *Server {
	t.Helper()
	s, err := servers.get(k)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Private starts a server for one test, which may kill, freeze, fill and flush
// it, and ends it with the test. args are more arguments for the server, as in
// "--maxmemory", "20mb" or "--appendonly", "yes".
func Private(t testing.TB, k Kind, args ...string) *Server {
	t.Helper()
	return private(t, k, embedded.Config{Cluster: k.Cluster(), Args: args})
}

// private starts a server that ends with the test.
func private(t testing.TB, k Kind, cfg embedded.Config) *Server {
	t.Helper()
	s, err := launch(k, cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.private = true
	if !k.Cluster() { // a proxy may stand before one, and go, and clients know of it
		s.audit = &audit{}
	}
	t.Cleanup(func() { end(s) })
	return s
}

// launch starts a server in a directory of its own.
func launch(k Kind, cfg embedded.Config) (*Server, error) {
	if !slices.Contains(kinds, k) {
		return nil, fmt.Errorf("tiertest: no kind of server is called %q", k)
	}
	binary, err := exec.LookPath(k.binary())
	if err != nil {
		return nil, fmt.Errorf("tiertest: the tests run on Valkey and on Redis, and this machine has no %s: run scripts/setup test, or install it", k.binary())
	}
	// Not t.TempDir: its name is too long for a socket.
	dir, err := os.MkdirTemp("", "tiertest-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	cfg.Binary, cfg.Dir = binary, dir
	s, err := embedded.Start(ctx, cfg)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	server := &Server{Server: s, Kind: k}
	// Some systems install Valkey under the name of redis-server, too.
	if name, _, _ := strings.Cut(s.Version(), " "); name+"-server" != k.binary() {
		end(server)
		return nil, fmt.Errorf("tiertest: %s is %s; run scripts/setup test, or put a real one on PATH", binary, s.Version())
	}
	return server, nil
}

// end kills: nobody reads the data again, and a kill takes no time.
func end(s *Server) {
	s.audit.close()
	s.Kill()
	_ = os.RemoveAll(s.Dir())
}

// pool holds the shared servers of this test binary. It is the one global of
// the package: a test binary has no other place that outlives a test.
type pool struct {
	mu   sync.Mutex
	made map[Kind]func() (*Server, error)
}

var servers = pool{made: map[Kind]func() (*Server, error){}}

// get starts a server when it is first asked for; kinds start side by side.
func (p *pool) get(k Kind) (*Server, error) {
	p.mu.Lock()
	once, ok := p.made[k]
	if !ok {
		once = sync.OnceValues(func() (*Server, error) {
			s, err := launch(k, embedded.Config{Cluster: k.Cluster()})
			if err == nil {
				s.audit = &audit{}
			}
			return s, err
		})
		p.made[k] = once
	}
	p.mu.Unlock()
	return once()
}

func (p *pool) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, get := range p.made {
		if s, err := get(); err == nil {
			end(s)
		}
	}
	clear(p.made)
}
