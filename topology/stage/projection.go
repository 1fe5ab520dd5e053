package stage

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
)

// Projection declares a state for each key, folded from the messages of a stream: a projection.Table in JSON, with versions. Its
// cursor and its state are <name>.<version>; a join, and projection.View with codec.JSON, read it.
type Projection struct {
	// From is the stream that is folded, from its head.
	From string `yaml:"from"`
	// Key is whose state a message changes. Default: the message's key. Messages without one are passed over.
	Key Expr `yaml:"key,omitempty"`
	// State is the state after a message, which sees that before it as state, nil at first. Default: data, which is the latest
	// message of each key. One that comes to nil takes the key away.
	State Expr `yaml:"state,omitempty"`
	// Version of what is made, from 1, which is the default, to 9999. Another Key or State wants another version, which is made beside the one that readers use until
	// they are switched over.
	Version int `yaml:"version,omitempty"`
	// Lease is how long the owner may be silent before another takes over. Default 30s.
	Lease Duration `yaml:"lease,omitempty"`
}

// CurrentVersion is the version that is declared.
func (c *Projection) CurrentVersion() int { return or(c.Version, 1) }

// Cursor is the name of the cursor, and of the state, of a projection of a name.
func (c *Projection) Cursor(name string) string {
	return projection.Versioned(name, c.CurrentVersion())
}

// Check finds what is wrong with the declaration.
func (c *Projection) Check() Problems {
	var found Problems
	f := finder{found: &found}
	f.address("from", c.From)
	f.expr("key", c.Key, anyResult)
	f.expr("state", c.State, anyResult)
	within(f.in("version"), c.Version, 1, 9999)
	within(f.in("lease"), c.Lease, Duration(time.Second), Duration(time.Hour))
	return found
}

// folding makes the states.
type folding struct {
	env        *env
	key, state *program
	metrics    *metrics
}

// NewProjection makes the projection of a declaration. It sends nothing.
//
// Errors: Problems, and those of projection.NewTable.
func NewProjection(client *tier.Client, name string, cfg Projection, opts Options) (Runner, error) {
	if err := cfg.Check().Err(); err != nil {
		return nil, err
	}
	opts.setDefaults()
	c := &compiler{}
	f := &folding{newEnv(), c.compile(cfg.Key, anyResult, "key"), c.compile(or(cfg.State, "data"), anyResult, "state"), newMetrics(opts.Registerer, name)}
	if err := c.problems.Err(); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(string(cfg.Key) + "\x00" + string(cfg.State)))
	return projection.NewTable(client, projection.TableConfig[json.RawMessage]{
		Config: projection.Config{
			Address: cfg.From, Name: name, Version: cfg.CurrentVersion(), Lease: time.Duration(cfg.Lease),
			Logger: opts.Logger.With(slog.String("projection", name)),
		},
		Key: f.keyOf, Fold: f.fold, Codec: codec.JSON[json.RawMessage](), Schema: int(binary.BigEndian.Uint32(sum[:]) >> 1),
	})
}

// noKey stands for the key of a message that has none by its expression: to fold it is the error.
const noKey = "\x00"

// keyOf is whose state a message changes; empty: nobody's.
func (f *folding) keyOf(d *consumer.Delivery) string {
	if d.Type == WatermarkType {
		return ""
	}
	f.env.set(&d.Record)
	key, err := f.key.textOr(f.env, d.Key, anyLength)
	if err != nil {
		return noKey
	}
	return key
}

// fold is the state after a message. What cannot be told never will be.
func (f *folding) fold(state json.RawMessage, d *consumer.Delivery) (json.RawMessage, error) {
	after, err := f.after(state, d)
	switch {
	case err != nil:
		f.metrics.dead.Inc()
		return state, consumer.Permanent(err)
	case after == nil:
		err = projection.ErrRemove
	}
	f.metrics.handled.Inc()
	return after, err
}

func (f *folding) after(state json.RawMessage, d *consumer.Delivery) (json.RawMessage, error) {
	f.env.set(&d.Record)
	if _, err := f.key.textOr(f.env, d.Key, anyLength); err != nil {
		return nil, err
	}
	before, err := valueOf(state)
	if err != nil {
		return nil, err
	}
	f.env.vars["state"] = before
	v, err := f.state.eval(f.env)
	if v == nil || err != nil {
		return nil, err
	}
	return encodeJSON(v)
}
