package stream

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/tier"
)

// Defaults and bounds of RecordsConfig.
const (
	DefaultKeep     = 24 * time.Hour
	DefaultKeepOpen = 30 * 24 * time.Hour
	MaxKeep         = 366 * 24 * time.Hour

	recordCalls = 4 // how often a call is sent, when its reply does not come
)

// RecordsConfig names a set of records. Address and Name are needed.
type RecordsConfig struct {
	// Address is "scope/stream", of the messages.
	Address string
	// Name of the records: of the group, as a rule. Who uses other records does the effects once more, by other consumers or
	// after the group was reset.
	Name string
	// Keep is how long a record lives of an effect that is done. Default 24 h, at most 366 days. A message that comes again
	// later than that is taken for a new one; each record takes about 200 bytes of the server's memory for as long.
	Keep time.Duration
	// KeepOpen is how long a record lives of an effect that has begun, and of which nobody knows whether it is done. Default
	// 30 days, or Keep if that is longer; at most 366 days. These are few: of messages that fail, and of processes that die.
	// Shorter than dead letters wait for whoever redrives them, a redriven message is taken for a new one.
	KeepOpen time.Duration
	// Hold is how long an effect that has begun keeps off other begins: while it is not known to be over, those of the same
	// attempt; and those of lower attempts, which are of who has lost the message and does not know. A higher attempt only follows
	// when the earlier one is over or has lost its lease, and is not kept off. Default 30 s, the default lease; take the
	// group's. Shorter, a process that was frozen may join the one that has its message now; longer, a message waits whose
	// attempts begin anew: after a crash of an exclusive owner, a redrive, or a reset of the group.
	Hold time.Duration
}

func (c *RecordsConfig) setDefaults() {
	if c.Keep == 0 {
		c.Keep = DefaultKeep
	}
	if c.KeepOpen == 0 {
		c.KeepOpen = max(c.Keep, DefaultKeepOpen)
	}
	if c.Hold == 0 {
		c.Hold = DefaultLease
	}
}

func (c *RecordsConfig) validate() error {
	if err := tier.CheckName("records", c.Name); err != nil {
		return err
	}
	for _, d := range []struct {
		name string
		is   time.Duration
	}{{"Keep", c.Keep}, {"KeepOpen", c.KeepOpen}, {"Hold", c.Hold}} {
		if d.is < time.Millisecond || d.is > MaxKeep {
			return fmt.Errorf("%w: %s is %s, want %s to %s", ErrBadCall, d.name, d.is, time.Millisecond, MaxKeep)
		}
	}
	return nil
}

// Records remember which effects were begun and which are done, by the id of their message: for effects outside the
// server, which cannot be done in one step with settling it. The one who is about to do an effect calls Begin, and when it has
// happened Done.
//
//	         Begin                      Done
//	(none) ─────────▶ begun ────────────────────────▶ done ──Keep──▶ (none)
//	  ▲                │ ▲ │ Leave
//	  └── Withdraw ────┘ │ ▼
//	                Begin└─ left
//
// A process that dies between the two leaves the record begun, whether it died before the effect or after it: nothing at
// the server can tell these apart. So the next Begin says that there were earlier ones, and its caller decides.
//
// A server that loses the record (a failover to a replica that had not got it, a flush) answers as if nothing had begun.
type Records struct {
	place *place
	cfg   RecordsConfig
}

// NewRecords checks the configuration. It sends nothing.
func NewRecords(client *tier.Client, cfg RecordsConfig) (*Records, error) {
	p, err := newPlace(client, cfg.Address)
	if err != nil {
		return nil, err
	}
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Records{place: p, cfg: cfg}, nil
}

// Address is the stream's.
func (r *Records) Address() tier.Address { return r.place.addr }

// Name is that of the configuration.
func (r *Records) Name() string { return r.cfg.Name }

// EffectState is what Begin found.
type EffectState uint8

const (
	EffectBegun EffectState = iota + 1 // the caller is to do it; then it calls Done, Leave or Withdraw
	EffectDone                         // there is nothing to do
	EffectHeld                         // another is at it, or died at it: ask again after Wait
)

// Effect is what is to happen once.
type Effect struct {
	State EffectState
	// Earlier is how many began before, and did not say that they had no effect. When it is more than none and the State is
	// EffectBegun, the effect may have happened.
	Earlier int
	First   time.Time     // when the first began, by the server's clock
	Wait    time.Duration // until it is not held any more

	key, token string
}

// Begin asks whether the effect of a message, by any text that is the message's own and not empty, is to be done now.
// The attempt is the message's. A call whose reply is lost is repeated; the error then is of the last one, and its outcome
// may be unknown: what may have begun is held.
func (r *Records) Begin(ctx context.Context, id string, attempt int) (Effect, error) {
	if id == "" || attempt < 0 {
		return Effect{}, fmt.Errorf("%w: Begin needs an id and an attempt", ErrBadCall)
	}
	e := Effect{key: r.place.addr.DoneKey(r.cfg.Name, id), token: rand.Text()}
	m, err := r.run(ctx, tier.Call{
		Script: beginEffectScript, Keys: []string{e.key},
		Args: []string{e.token, strconv.Itoa(attempt), milliseconds(r.cfg.Hold), milliseconds(r.cfg.KeepOpen)},
	})
	if err != nil {
		return Effect{}, err
	}
	return e, e.read(m)
}

func (e *Effect) read(m rueidis.RedisMessage) error {
	parts, err := tier.Texts("begin_effect", m, 4)
	if err != nil {
		return err
	}
	var n [3]int64
	for i := range n {
		if n[i], err = strconv.ParseInt(parts[i+1], 10, 64); err != nil {
			return tier.Wrap("begin_effect", e.key, err)
		}
	}
	e.Earlier, e.First, e.Wait = int(n[0]), time.UnixMilli(n[1]), time.Duration(n[2])*time.Millisecond
	switch parts[0] {
	case "begun":
		e.State = EffectBegun
	case "done":
		e.State = EffectDone
	case "held":
		e.State = EffectHeld
	default:
		return fmt.Errorf("stream: begin_effect: unexpected code %.32q", parts[0])
	}
	return nil
}

// Done notes that the effect has happened, which holds whoever has begun since.
func (r *Records) Done(ctx context.Context, e Effect) error { return r.end(ctx, e, "done", r.cfg.Keep) }

// Leave notes that the one who began is at it no more, and that the effect may have happened: the next need not wait.
func (r *Records) Leave(ctx context.Context, e Effect) error {
	return r.end(ctx, e, "left", r.cfg.KeepOpen)
}

// Withdraw notes that the one who began is at it no more, and has not had the effect: this begin does not count. It has no
// effect when another has begun since.
func (r *Records) Withdraw(ctx context.Context, e Effect) error {
	return r.end(ctx, e, "none", r.cfg.KeepOpen)
}

func (r *Records) end(ctx context.Context, e Effect, to string, keep time.Duration) error {
	if e.State != EffectBegun || e.token == "" {
		return fmt.Errorf("%w: only an effect that Begin said has begun can end", ErrBadCall)
	}
	_, err := r.run(ctx, tier.Call{Script: endEffectScript, Keys: []string{e.key}, Args: []string{e.token, to, milliseconds(keep)}})
	return err
}

// run repeats a call that was not answered, which has its effect once.
func (r *Records) run(ctx context.Context, call tier.Call) (m rueidis.RedisMessage, err error) {
	for try := 1; ; try++ {
		m, err = r.place.client.Run(ctx, call)
		if err == nil || !repeatable(err) || try == recordCalls || !tier.Pause(ctx, tier.CallDelay(try)) {
			return m, err
		}
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
