package history

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/consumer/projection"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

// Name of the projection, and of the live version of which Read reads.
const Name = "jobs.history"

// Kept is how long a minute is kept: its place is then that of another one.
const Kept = 7 * 24 * time.Hour

// Minute is what became of jobs within a minute.
type Minute struct {
	At     time.Time            `json:"at"`     // when it began, by the server's clock
	Counts map[queue.What]int64 `json:"counts"` // how often each happened
	Waited Span                 `json:"waited"` // of jobs that were started: how long they were ready
	Ran    Span                 `json:"ran"`    // of attempts that ended: how long their workers had them
}

// Span is how long something took that happened several times, as far as that is known.
type Span struct {
	N   int64         `json:"n"`
	Sum time.Duration `json:"sum"`
	Max time.Duration `json:"max"`
}

func (s *Span) add(d time.Duration) {
	s.merge(Span{1, d, d})
}

func (s *Span) merge(o Span) {
	s.N, s.Sum, s.Max = s.N+o.N, s.Sum+o.Sum, max(s.Max, o.Max)
}

// Mean is 0 when nothing is known.
func (s Span) Mean() time.Duration { return s.Sum / time.Duration(max(1, s.N)) }

// Add adds what became of jobs in another time.
func (m *Minute) Add(o Minute) {
	if m.Counts == nil {
		m.Counts = map[queue.What]int64{}
	}
	for what, n := range o.Counts {
		m.Counts[what] += n
	}
	m.Waited.merge(o.Waited)
	m.Ran.merge(o.Ran)
}

// Config of a history. Queue is needed.
type Config struct {
	Queue string
	// Version of the projection. Default 1. A higher one is made beside the one that is read, from the first event that is still
	// there.
	Version int
	// Lease is how long who folds may be silent before another takes over. Default 30 s.
	Lease time.Duration
	// Logger receives what happens. Nil discards.
	Logger *slog.Logger
}

// New makes the projection, of which one at a time folds and the others stand by. It sends nothing. A queue without events has
// no history: Run waits for them.
func New(client *tier.Client, cfg Config) (*projection.Table[Minute], error) {
	if err := tier.CheckName("scope", cfg.Queue); err != nil {
		return nil, fmt.Errorf("%w: Queue: %w", consumer.ErrConfig, err)
	}
	return projection.NewTable(client, projection.TableConfig[Minute]{
		Config: projection.Config{
			Address: tier.Queue(cfg.Queue).Events().String(), Name: Name, Version: cfg.Version, Lease: cfg.Lease, Logger: cfg.Logger,
		},
		Key: func(d *consumer.Delivery) string {
			if d.Type != queue.EventsType {
				return "" // of another program
			}
			return place(d.Addr.Time())
		},
		Fold: fold,
	})
}

// place of a minute in the state, which is a ring.
func place(t time.Time) string {
	return strconv.FormatInt(t.Unix()/60%int64(Kept/time.Minute), 10)
}

// fold counts what a message tells; in the place of a minute before it, it begins anew. What is older than what stands there
// is no longer kept.
func fold(m Minute, d *consumer.Delivery) (Minute, error) {
	events, err := queue.DecodeEvents(&d.Message)
	if err != nil {
		return m, consumer.Permanent(err)
	}
	at := d.Addr.Time().Truncate(time.Minute)
	if at.Before(m.At) {
		return m, nil
	}
	if m.Counts == nil || at.After(m.At) {
		m = Minute{At: at, Counts: map[queue.What]int64{}}
	}
	for i := range events {
		e := &events[i]
		m.Counts[e.What()]++
		switch {
		case e.After < 0:
		case e.From == queue.Ready:
			m.Waited.add(e.After)
		case e.From == queue.Active:
			m.Ran.add(e.After)
		}
	}
	return m, nil
}

// Read reads the minutes that begin in [from, to), in their order, those too in which nothing happened. A window of more than
// Kept is cut to its end.
//
// Errors: projection.ErrNoProjection: nobody has run it yet.
func Read(ctx context.Context, client *tier.Client, name string, from, to time.Time) ([]Minute, error) {
	view, err := projection.NewView[Minute](client, name, Name, nil)
	if err != nil {
		return nil, err
	}
	if first := to.Add(-Kept); from.Before(first) {
		from = first
	}
	var minutes []Minute
	var keys []string
	for at := from.UTC().Add(time.Minute - 1).Truncate(time.Minute); at.Before(to); at = at.Add(time.Minute) {
		minutes, keys = append(minutes, Minute{At: at, Counts: map[queue.What]int64{}}), append(keys, place(at))
	}
	states, err := view.GetAll(ctx, keys...)
	if err != nil {
		return nil, err
	}
	for i := range minutes {
		if m, ok := states[keys[i]]; ok && m.At.Equal(minutes[i].At) {
			m.At = m.At.UTC()
			minutes[i] = m
		}
	}
	return minutes, nil
}
