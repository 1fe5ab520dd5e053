package stage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
)

// Func is a Go function as a stage: a consumer's handler. What it emits is committed with the checkpoint; it may be called by
// several goroutines, for messages of different keys.
type Func = consumer.Handler

// Options of stages, sources and sinks, of all that run in one process.
type Options struct {
	// Funcs are what Config.Func names.
	Funcs map[string]Func
	// Subscribers and Publishers are what Watermill.Name of sources, and of sinks, names.
	Subscribers map[string]Subscriber
	Publishers  map[string]Publisher
	// Logger receives what happens. Nil discards.
	Logger *slog.Logger
	// Registerer receives the metrics. Nil is fine.
	Registerer prometheus.Registerer
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Runner is a stage, a source or a sink. Run does its work until ctx ends, which is no error; Ready is closed when it takes
// part: it owns its input, or stands by.
type Runner interface {
	Run(ctx context.Context) error
	Ready() <-chan struct{}
}

// State is the name of what a stage keeps beside its checkpoint, a hash of the scope.
func State(name string) string { return "stage." + name }

// New makes the stage of a declaration. Its name is that of its cursor and its state. It sends nothing.
//
// Errors: Problems; ErrNoFunc.
func New(client *tier.Client, name string, cfg Config, opts Options) (Runner, error) {
	if err := tier.CheckName("stage", name); err != nil {
		return nil, err
	}
	if err := cfg.Check().Err(); err != nil {
		return nil, err
	}
	opts.setDefaults()
	c, m := &compiler{}, newMetrics(opts.Registerer, name)
	switch cfg.Verb() {
	case "exec", "webhook", "job", "func":
		r, err := c.newCalling(client, name, cfg, opts)
		if problems := c.problems.Err(); problems != nil {
			return nil, problems
		}
		return r, err
	}
	d, err := c.decider(client, name, cfg, m)
	if err != nil {
		return nil, err
	}
	if err := c.problems.Err(); err != nil {
		return nil, err
	}
	return projection.NewProcess(client, projection.ProcessConfig{
		Address: cfg.From, Name: name, Lease: time.Duration(cfg.Lease), Attempts: cfg.Attempts, Backoff: time.Duration(cfg.Backoff),
		Logger: opts.Logger.With(slog.String("stage", name)),
	}, &process{decider: d, name: name, env: newEnv(), outputs: cfg.Outputs(), metrics: m})
}

// decider compiles the part that decides.
func (c *compiler) decider(client *tier.Client, name string, cfg Config, m *metrics) (decider, error) {
	from, err := tier.ParseAddress(cfg.From)
	if err != nil {
		return nil, err
	}
	switch cfg.Verb() {
	case "filter":
		return &filtering{when: c.compile(cfg.Filter, boolResult, "filter"), to: cfg.To}, nil
	case "map":
		f := &mapping{data: c.compile(cfg.Map.Data, anyResult, "map", "data"), key: c.compile(cfg.Map.Key, anyResult, "map", "key"), kind: c.compile(cfg.Map.Type, anyResult, "map", "type"), to: cfg.To}
		f.headers = c.headers(cfg.Map.Headers, "map")
		return f, nil
	case "key_by":
		return &mapping{key: c.compile(cfg.KeyBy, anyResult, "key_by"), to: cfg.To}, nil
	case "route":
		r := &routing{}
		for i, way := range cfg.Route {
			r.when, r.to = append(r.when, c.compile(way.When, boolResult, "route", fmt.Sprint(i), "when")), append(r.to, way.To)
		}
		return r, nil
	case "dedupe":
		v := cfg.Dedupe
		return &deduping{remember[struct{}](client, from, name, v.Key, v.Within), c.compile(v.Key, anyResult, "dedupe", "key"), millis(v.Within), or(v.MaxKeys, defaultKeys), cfg.To}, nil
	case "throttle":
		v := cfg.Throttle
		return &throttling{
			memory: remember[int](client, from, name, v.Key, v.Per), key: c.compile(v.Key, anyResult, "throttle", "key"),
			count: v.Count, per: millis(v.Per), most: or(v.MaxKeys, defaultKeys), to: cfg.To, over: v.Over,
		}, nil
	case "batch":
		v := cfg.Batch
		return &batching{
			memory: remember[gathered](client, from, name, v.Key), key: c.compile(v.Key, anyResult, "batch", "key"),
			size: v.Size, within: millis(v.Within), most: or(v.MaxOpen, 100), name: name, to: cfg.To,
		}, nil
	case "window":
		shape := *cfg.Window
		shape.Lateness, shape.Late, shape.MaxOpen, shape.MaxDistinct = 0, "", 0, 0
		w := &windowing{memory: remember[open](client, from, name, shape), name: name, to: cfg.To, late: m.late.Inc}
		w.setUp(c, *cfg.Window)
		return w, nil
	case "decide":
		return c.newDeciding(client, *cfg.Decide, cfg.To)
	case "join":
		v := cfg.Join
		look := func(ctx context.Context, keys ...string) ([]tier.Field, error) {
			return client.StateFields(ctx, from.Scope, v.State, keys...)
		}
		return &joining{state: v.State, look: look, key: c.compile(v.Key, anyResult, "join", "key"), data: c.compile(v.Data, anyResult, "join", "data"), missing: v.Missing, to: cfg.To}, nil
	}
	return nil, fmt.Errorf("stage: %s decides nothing", cfg.Verb())
}

// remember is the memory of a stage; the shape is what of its declaration its state depends on.
func remember[T any](client *tier.Client, from tier.Address, name string, shape ...any) memory[T] {
	text, _ := json.Marshal(shape)
	sum := sha256.Sum256(text)
	return memory[T]{client: client, scope: from.Scope, state: State(name), shape: hex.EncodeToString(sum[:8])}
}

func (m *memory[T]) prepare(ctx context.Context, _ *env, _ []consumer.Delivery) error {
	return m.load(ctx)
}

// process runs a decider as a projection's process.
type process struct {
	decider
	name    string
	env     *env
	outputs []string
	metrics *metrics
	dead    []projection.MessageError // of the last batch
	open    []handled                 // batches that are not committed
}

// handled is what became of the messages of a batch.
type handled struct{ well, dead int }

// Begin implements projection.Process.
func (p *process) Begin(_ context.Context, checkpoint codec.EntryID) error {
	p.begin(checkpoint)
	p.open = nil
	return nil
}

// maxCommit is how many bytes the messages of a commit have, about, where one entry alone has no more: small messages may make large
// ones, and a server closes the connection of who sends too much at once.
const maxCommit = 8 << 20

// Handle implements projection.Process. What cannot be decided is never to be: the same would come of it.
func (p *process) Handle(ctx context.Context, batch []consumer.Delivery) (projection.Effects, error) {
	if err := p.prepare(ctx, p.env, batch); err != nil {
		return projection.Effects{}, err
	}
	p.dead = nil
	bytes := 0
	for i := range batch {
		d := &batch[i]
		p.env.set(&d.Record)
		err := p.one(d)
		if err != nil {
			p.dead = append(p.dead, projection.MessageError{Index: i, Err: err})
			continue
		}
		d.Emit(p.env.out...)
		for k := range p.env.out {
			bytes += p.env.out[k].Message.Size()
		}
		if bytes > maxCommit && d.Position.Entry != batch[0].Position.Entry {
			return projection.Effects{}, &projection.MessageError{Index: i, Err: consumer.Snooze(0)} // those before it are a batch
		}
	}
	e, err := p.effects()
	e.Dead = p.dead
	if err == nil {
		p.open = append(p.open, handled{len(batch) - len(p.dead), len(p.dead)})
	}
	return e, err
}

var errForeign = errors.New("stage: the entry holds no message")

func (p *process) one(d *consumer.Delivery) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &consumer.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	switch {
	case d.Foreign():
		return errForeign
	case d.Type != WatermarkType:
		return p.decide(p.env, d)
	}
	until, err := watermarkOf(p.env)
	if err == nil {
		err = p.flush(p.env, until)
	}
	if m, first := watermark(d.Message, p.name); first {
		for _, to := range p.outputs {
			p.env.emit(to, m)
		}
	}
	return err
}

// headerThrough names the stages that a watermark went through, so that it goes round a circle once.
const headerThrough = "emq-through"

// watermark is one as a stage hands it on, the first time. Streams may ask for keys, and it is of none.
func watermark(m codec.Message, name string) (_ codec.Message, first bool) {
	through, _ := m.Headers.Get(headerThrough)
	if slices.Contains(strings.Fields(through), name) {
		return m, false
	}
	through = strings.TrimSpace(through + " " + name)
	for len(through) > codec.MaxHeaderValue { // the last ones do for any circle that is shorter
		_, through, _ = strings.Cut(through, " ")
	}
	m.Key, m.Headers = cmp.Or(m.Key, WatermarkType), slices.Clone(m.Headers)
	m.Headers.Set(headerThrough, through)
	return m, true
}

// watermarkOf is the time of a watermark, nil for the end.
func watermarkOf(e *env) (*int64, error) {
	if len(e.record.Data) == 0 {
		return nil, nil
	}
	data, _ := e.data().(map[string]any)
	v, given := data["time"]
	if !given {
		return nil, nil
	}
	t, err := moment(v)
	return &t, err
}

// Committed implements projection.Process.
func (p *process) Committed() {
	p.committed()
	p.metrics.handled.Add(float64(p.open[0].well))
	p.metrics.dead.Add(float64(p.open[0].dead))
	p.open = slices.Delete(p.open, 0, 1)
}

// Forget implements projection.Process.
func (p *process) Forget() {
	p.forget()
	p.open = nil
}
