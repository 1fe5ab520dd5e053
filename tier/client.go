package tier

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// Options of a Client. The zero value is ready to use.
type Options struct {
	// ClientName is shown by CLIENT LIST. Default "echomq".
	ClientName string
	// CallTimeout bounds each call that does not wait on the server. Default 10 s. Shorter than the server's slowest
	// script, it turns good writes into writes of unknown outcome; long, it makes a frozen server noticed late.
	CallTimeout time.Duration
	// TLS is what valkeys:// and rediss:// URLs connect with, where files named by the URL do not do; what the URL names
	// takes its place. Nil: the system's certificates are trusted.
	TLS *tls.Config
	// Logger receives warnings about the server's settings. Nil discards.
	Logger *slog.Logger
}

func (o *Options) setDefaults() {
	if o.ClientName == "" {
		o.ClientName = "echomq"
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Client is one process's access to one deployment: a pipelined connection to each node, and small ones for reads that
// wait. It is safe for concurrent use.
type Client struct {
	opts   Options
	pipe   rueidis.Client // one connection a node: calls share round trips, one DoMulti keeps its order
	block  rueidis.Client // a connection for each read that waits, with small buffers
	server Server
	dial   func(ctx context.Context, addr string) (net.Conn, error) // through the gate

	gate      gate
	closed    atomic.Bool
	dedicated sync.Map // whoever has a connection for itself -> true

	numbersMu sync.Mutex
	numbers   map[string]int // scope -> node number, proposed again to a server that lost it
}

// Dial connects, compares the version fence and probes the server. The caller closes the client. A URL is one of
//
//	valkey://user:password@host:6379/0?db=0    redis:// means the same
//	valkeys://host                             with TLS; rediss:// means the same
//	valkey://a:6379,b:6379,c:6379              some nodes of a cluster; one is enough while it runs
//	valkey://a:26379,b:26379?sentinel=main     the primary that sentinels know as main
//	unix:///path/to/socket
//
// and its parameters are db, a number; ca, cert and key, PEM files for TLS: whom to trust, and who the client is;
// sentinel, with sentinel-user and sentinel-password where sentinels want them: user and password are those of the
// primary. With TLS, sentinels speak it as well.
//
// Errors: ErrURL, ErrUnreachable, ErrTLS, ErrAuth, ErrPermission, *VersionError, ErrServerTooOld.
func Dial(ctx context.Context, url string, opts Options) (*Client, error) {
	opts.setDefaults()
	opt, err := clientOption(url, opts.TLS)
	if err != nil {
		return nil, err
	}
	c := &Client{opts: opts, numbers: map[string]int{}}
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	c.gate.open(ctx)
	defer c.gate.close()
	if err := c.connect(opt); err != nil {
		if ctx.Err() != nil && !errors.Is(err, errBothEnds) {
			err = ctx.Err()
		}
		return nil, Wrap("connect", "", err)
	}
	if err := c.probe(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// refresh is how often a cluster or sentinels are asked who serves what, beside what they tell on their own: a message may
// be lost, and a node that hangs tells nothing.
const refresh = 5 * time.Second

func (c *Client) connect(opt rueidis.ClientOption) error {
	opt.ClientName = c.opts.ClientName
	opt.ClientSetInfo = rueidis.DisableClientSetInfo
	opt.DisableCache = true // stream commands cannot be cached on the client's side
	opt.DisableRetry = true // repeats are ours to decide
	opt.PipelineMultiplex = -1
	opt.AlwaysPipelining = true
	opt.ReadBufferEachConn, opt.WriteBufferEachConn = 64<<10, 64<<10 // half a mebibyte each is the default
	opt.MaxFlushDelay = 20 * time.Microsecond
	opt.ClusterOption.ShardsRefreshInterval = refresh
	opt.Dialer.Timeout = c.opts.CallTimeout
	opt.ConnWriteTimeout = c.opts.CallTimeout
	opt.Dialer.KeepAlive = 10 * time.Second // the library's ping of an idle connection, too; its default is every second
	c.gate.before(&opt)
	c.dial = func(ctx context.Context, addr string) (net.Conn, error) {
		return opt.DialCtxFn(ctx, addr, &opt.Dialer, opt.TLSConfig)
	}

	pipe, err := rueidis.NewClient(opt)
	if err != nil {
		return err
	}
	opt.ReadBufferEachConn = 16 << 10
	opt.WriteBufferEachConn = 16 << 10
	opt.RingScaleEachConn = 8
	opt.AlwaysPipelining = false // each has one call at a time; and no pings, which the transactions that guards leave open would collect
	opt.BlockingPoolCleanup = time.Minute
	opt.BlockingPoolMinSize = 1
	block, err := rueidis.NewClient(opt)
	if err != nil {
		pipe.Close()
		return err
	}
	c.pipe, c.block = pipe, block
	return nil
}

// Close ends the connections. A wait in Wait ends with its time.
func (c *Client) Close() {
	c.closed.Store(true)
	c.dedicated.Range(func(by, _ any) bool {
		by.(interface{ Close() }).Close()
		return true
	})
	c.pipe.Close()
	c.block.Close()
}

// Logger is the logger of the options, never nil.
func (c *Client) Logger() *slog.Logger { return c.opts.Logger }

// B builds a command for Do, DoMulti and Wait.
func (c *Client) B() rueidis.Builder { return c.pipe.B() }

// Do sends one command that does not block. Op and key are those of the error, see Wrap.
func (c *Client) Do(ctx context.Context, key string, cmd rueidis.Completed) (rueidis.RedisMessage, error) {
	op := cmd.Commands()[0]
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	m, err := c.pipe.Do(ctx, cmd).ToMessage()
	return m, c.wrap(op, key, err)
}

// DoMulti sends commands on keys of one slot in one write. The first failure is the error.
func (c *Client) DoMulti(ctx context.Context, key string, cmds ...rueidis.Completed) ([]rueidis.RedisResult, error) {
	results, names := c.doMulti(ctx, key, cmds)
	for i, r := range results {
		if err := r.Error(); err != nil && !isNil(err) {
			return nil, c.wrap(names[i][0], names[i][1], err)
		}
	}
	return results, nil
}

// DoEach is DoMulti for commands of which some may fail and others not: each has its result.
func (c *Client) DoEach(ctx context.Context, key string, cmds ...rueidis.Completed) []Result {
	results, names := c.doMulti(ctx, key, cmds)
	each := make([]Result, len(results))
	for i, r := range results {
		m, err := r.ToMessage()
		each[i] = Result{Message: m, Err: c.wrap(names[i][0], names[i][1], err)}
	}
	return each
}

// doMulti returns with each result the command and the key that an error names.
func (c *Client) doMulti(ctx context.Context, key string, cmds []rueidis.Completed) ([]rueidis.RedisResult, [][2]string) {
	names := make([][2]string, len(cmds)) // the library takes the commands back
	for i, cmd := range cmds {
		words := cmd.Commands()
		names[i] = [2]string{words[0], key}
		if len(words) > 1 && Slot(words[1]) == Slot(key) {
			names[i][1] = words[1]
		}
	}
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	return c.pipe.DoMulti(ctx, cmds...), names
}

// Now is the server's clock, of the node that serves the key.
func (c *Client) Now(ctx context.Context, key string) (time.Time, error) {
	m, err := c.Run(ctx, Call{Script: timeScript, Keys: []string{key}})
	if err != nil {
		return time.Time{}, err
	}
	us, err := m.AsInt64()
	return time.UnixMicro(us), err
}

// waitMargin is what a reply may take beyond the time that the server was asked to wait.
const waitMargin = 5 * time.Second

// Wait sends a command that blocks on the server for up to wait, on a connection of its own. Once sent it is not cut
// off: an answer that nobody waits for would leave entries behind in a pending list. So the end of ctx is only looked
// at before; callers keep wait short.
func (c *Client) Wait(ctx context.Context, key string, wait time.Duration, cmd rueidis.Completed) (rueidis.RedisMessage, error) {
	op := cmd.Commands()[0]
	if err := ctx.Err(); err != nil {
		return rueidis.RedisMessage{}, Wrap(op, key, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait+min(waitMargin, c.opts.CallTimeout))
	defer cancel()
	m, err := c.block.Do(ctx, cmd).ToMessage()
	return m, c.wrap(op, key, err)
}

// wrap is Wrap, with what the client library does not tell: why there is no connection, and that it closed one itself, for
// a server that is not the primary any more.
func (c *Client) wrap(op, key string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rueidis.ErrClosing) && !c.closed.Load():
		err = errSwitched
	default:
		err = c.gate.because(err)
	}
	return Wrap(op, key, err)
}

var errSwitched = errors.New("the connection was given up for one to another server")

func (c *Client) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.opts.CallTimeout)
}
