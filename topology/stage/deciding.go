package stage

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/sourcegraph/conc/pool"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	aggregates "github.com/echomq/pipeline/tier/stream/aggregate"
)

// RefusedError says why a command was refused.
type RefusedError struct{ Key, Reason string }

func (e *RefusedError) Error() string { return fmt.Sprintf("stage: refused: %.200s", e.Reason) }

// deciding makes events of commands. It is the only one that appends to its stream, so what it has folded of a key, from the log and
// of what it has decided since, is the key's state for as long as it owns its input.
type deciding struct {
	stateless
	key, refuse *program
	events      []deciderEvent
	fold        *folding
	to          string
	open        func(context.Context) error // before anything is loaded
	load        func(ctx context.Context, key string) (json.RawMessage, error)

	mu     sync.Mutex         // of fold, while many are loaded
	states map[string]decided // as of what was decided
	lost   map[string]error   // keys whose events cannot be folded, of the batch

	batches, done int // that were decided on, and of these committed
}

// decided is what a key is.
type decided struct {
	state json.RawMessage
	batch int // the last one that has a command for it
}

// deciderEvent makes an event of a command.
type deciderEvent struct {
	when *program
	mapping
}

const (
	maxStates = 100_000 // that are kept for the next batch
	loaders   = 16
)

// newDeciding makes one; without a client its keys have no events before.
func (c *compiler) newDeciding(client *tier.Client, cfg Decide, to string) (*deciding, error) {
	s := &deciding{
		key: c.compile(cfg.Key, anyResult, "decide", "key"), refuse: c.compile(cfg.Refuse, anyResult, "decide", "refuse"), to: to,
		fold: &folding{env: newEnv(), state: c.compile(cfg.State, anyResult, "decide", "state")},
		open: func(context.Context) error { return nil },
		load: func(context.Context, string) (json.RawMessage, error) { return nil, nil },
	}
	for i, e := range cfg.Events {
		in := []string{"decide", "events", fmt.Sprint(i)}
		of := func(text Expr, want result, field string) *program {
			return c.compile(text, want, append(in[:3:3], field)...)
		}
		s.events = append(s.events, deciderEvent{of(e.When, boolResult, "when"), mapping{kind: of(e.Type, anyResult, "type"), data: of(e.Data, anyResult, "data")}})
	}
	s.forget()
	if client == nil {
		return s, nil
	}
	sum := sha256.Sum256([]byte(cfg.State))
	states, err := aggregates.New(client, aggregates.Config[json.RawMessage]{Address: to, Fold: s.foldRecord, Schema: int(binary.BigEndian.Uint32(sum[:]) >> 1)})
	if err != nil {
		return nil, err
	}
	declare, err := stream.NewWriter(client, stream.WriterConfig{Address: to, Keyed: true})
	if err != nil {
		return nil, err
	}
	declared := false
	s.load = func(ctx context.Context, key string) (json.RawMessage, error) {
		state, err := states.Load(ctx, key)
		return state.Value, err
	}
	s.open = func(ctx context.Context) error {
		if declared {
			return nil
		}
		_, err := declare.Declare(ctx)
		declared = err == nil
		return err
	}
	return s, nil
}

func (s *deciding) begin(codec.EntryID) { s.forget() }
func (s *deciding) forget()             { s.states, s.batches, s.done = map[string]decided{}, 0, 0 }

// committed keeps of too many states those that the log does not tell yet.
func (s *deciding) committed() {
	if s.done++; len(s.states) > maxStates {
		maps.DeleteFunc(s.states, func(_ string, d decided) bool { return d.batch <= s.done })
	}
}

// foldRecord is the state after an event of the log.
func (s *deciding) foldRecord(state json.RawMessage, r codec.Record) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fold.after(state, &consumer.Delivery{Record: r})
}

// prepare loads the states of a batch that are not here.
func (s *deciding) prepare(ctx context.Context, e *env, batch []consumer.Delivery) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	s.lost, s.batches = map[string]error{}, s.batches+1
	missing := map[string]bool{}
	for i := range batch {
		e.set(&batch[i].Record)
		key, err := s.keyOf(e, &batch[i])
		if err != nil || batch[i].Type == WatermarkType { // an error is told when it is decided
			continue
		}
		if is, known := s.states[key]; known {
			s.states[key] = decided{is.state, s.batches}
		} else {
			missing[key] = true
		}
	}
	var mu sync.Mutex
	loads := pool.New().WithContext(ctx).WithCancelOnError().WithFirstError().WithMaxGoroutines(loaders)
	for key := range missing {
		loads.Go(func(ctx context.Context) error {
			state, err := s.load(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			if errors.As(err, new(*EvalError)) || errors.Is(err, stream.ErrTrimmed) || errors.Is(err, codec.ErrDecode) {
				s.lost[key] = err
				return nil
			}
			if err == nil { // what was not loaded is no state
				s.states[key] = decided{state, s.batches}
			}
			return err
		})
	}
	return loads.Wait()
}

var errNoKey = errors.New("stage: the command has no key: it is about nothing")

func (s *deciding) keyOf(e *env, d *consumer.Delivery) (string, error) {
	key, err := s.key.textOr(e, d.Key, codec.MaxKey)
	if err == nil && key == "" {
		err = errNoKey
	}
	return strings.Clone(key), err
}

func (s *deciding) decide(e *env, d *consumer.Delivery) error {
	key, err := s.keyOf(e, d)
	if err == nil {
		err = s.lost[key]
	}
	if err != nil {
		return err
	}
	state := s.states[key].state
	if e.vars["state"], err = valueOf(state); err != nil {
		return err
	}
	if s.refuse != nil {
		v, err := s.refuse.eval(e)
		if err != nil {
			return err
		}
		if v != nil {
			reason, err := text(v)
			if err != nil {
				return s.refuse.failed(e, err)
			}
			return &RefusedError{key, reason}
		}
	}
	var events []codec.Message
	for i := range s.events {
		m, err := s.events[i].of(e, d.Message)
		if err != nil {
			return err
		}
		if m == nil {
			continue
		}
		m.Key = key
		events = append(events, *m)
		if state, err = s.foldRecord(state, codec.Record{Message: *m}); err != nil {
			return err
		}
	}
	for _, m := range events {
		e.emit(s.to, m)
	}
	s.states[key] = decided{state, s.batches}
	return nil
}

// of is the event of a command; nil: there is none.
func (v *deciderEvent) of(e *env, command codec.Message) (*codec.Message, error) {
	if v.when != nil {
		if is, err := v.when.truth(e); !is || err != nil {
			return nil, err
		}
	}
	m, err := v.message(e, command)
	return &m, err
}

func valueOf(state json.RawMessage) (any, error) {
	if state == nil {
		return nil, nil
	}
	return decodeJSON(state)
}
