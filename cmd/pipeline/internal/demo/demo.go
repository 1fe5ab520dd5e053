// Package demo does the main job of the pipeline on real input: earthquakes go into
// a stream, a group of consumers in processes of their own handles them, one of
// these is killed on the way, and nothing is lost.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/embedded"
	"github.com/echomq/pipeline/tier/stream"
)

// Config of a demo.
type Config struct {
	Out     io.Writer // for people; io.Discard for none
	Color   bool
	Worker  []string // command line of a consumer; its name is added, the server's URL is in PIPELINE_URL
	Environ []string // of the consumers
}

// Network is what became of the earthquakes of one network.
type Network struct {
	Name      string `json:"network"`
	Published int    `json:"published"`
	Handled   int    `json:"handled"`  // different ones
	Repeated  int    `json:"repeated"` // handled more than once
	Window    int    `json:"window"`   // found in the window of time
}

// Result is what the demo found out.
type Result struct {
	Network             // the totals, under the name "total"
	TakenOver int       `json:"taken_over"` // from the consumer that was killed
	Lost      int       `json:"lost"`
	Seconds   float64   `json:"seconds"`
	Networks  []Network `json:"networks"`
}

// limit is how long the demo may take.
const limit = 20 * time.Second

// demo is one run.
type demo struct {
	cfg    Config
	say    *teller
	client *tier.Client
	url    string

	events    []codec.Message
	ids       []codec.ID // of events
	t0, t1    time.Time  // the window
	handled   map[codec.ID]int
	window    map[codec.ID]bool
	takenOver map[codec.ID]bool
}

// Run runs the demo. The error says what does not add up.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the demo takes more than %s: this machine is busy, or something is wrong", limit))
	defer cancel()
	begun := time.Now()
	d := &demo{
		cfg: cfg, say: &teller{out: cfg.Out, color: cfg.Color},
		handled: map[codec.ID]int{}, window: map[codec.ID]bool{}, takenOver: map[codec.ID]bool{},
	}
	d.say.title("2,000 earthquakes through a stream, three processes at work, one of them killed")
	if err := d.onServer(ctx); err != nil {
		return nil, whyEnded(ctx, err)
	}
	r, err := d.result()
	r.Seconds = time.Since(begun).Seconds()
	d.say.table(r)
	if err == nil {
		d.say.end(time.Since(begun))
	}
	return r, err
}

// whyEnded prefers the reason for which a context has ended to what failed then.
func whyEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// onServer does the work on a server of its own, of which nothing is left behind.
func (d *demo) onServer(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "pipeline-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	begun := time.Now()
	server, err := embedded.Start(ctx, embedded.Config{Dir: dir, AppendOnly: true})
	if err != nil {
		return err
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, server.Stop(stop))
	}()
	d.url = server.URL()
	if d.client, err = tier.Dial(ctx, d.url, tier.Options{ClientName: "demo"}); err != nil {
		return err
	}
	defer d.client.Close()
	d.say.step("server", time.Since(begun), "%s, a child process on a unix socket", server.Version())
	for _, step := range []func(context.Context) error{d.publish, d.handle, d.readWindow, d.lookUp, d.audit} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// perCall is how many messages are appended at once.
const perCall = 100

// publish appends the sample.
func (d *demo) publish(ctx context.Context) (err error) {
	if d.events, err = Sample(); err != nil {
		return err
	}
	w, err := stream.NewWriter(d.client, stream.WriterConfig{Address: address})
	if err != nil {
		return err
	}
	begun := time.Now()
	for i := 0; i < len(d.events); i += perCall {
		ids, err := w.AppendBatch(ctx, d.events[i:min(i+perCall, len(d.events))])
		if err != nil {
			return err
		}
		d.ids = append(d.ids, ids...)
	}
	took := time.Since(begun)
	d.say.step("publish", took, "%s events of %d networks to %s, %s", number(len(d.ids)), len(d.networks()), address, rate(len(d.ids), took))
	d.say.more("ids %s to %s", d.ids[0], d.ids[len(d.ids)-1])
	d.t0, d.t1 = d.ids[len(d.ids)/4].Time(), d.ids[3*len(d.ids)/4].Time()
	return nil
}

// readWindow reads the middle of the publishing again, by time.
func (d *demo) readWindow(ctx context.Context) error {
	r, err := stream.NewReader(d.client, stream.ReaderConfig{Address: address})
	if err != nil {
		return err
	}
	begun := time.Now()
	for record, err := range r.Window(ctx, d.t0, d.t1) {
		if err != nil {
			return err
		}
		d.window[record.ID] = true
	}
	d.say.step("window", time.Since(begun), "%s to %s again: %s events",
		d.t0.Format("15:04:05.000"), d.t1.Format("15:04:05.000"), number(len(d.window)))
	return nil
}

// lookUp reads one event by nothing but its id.
func (d *demo) lookUp(ctx context.Context) error {
	strongest, most := 0, 0.0
	for i := range d.events {
		_, magnitude, err := quakeOf(&d.events[i])
		if err != nil {
			return err
		}
		if magnitude > most {
			strongest, most = i, magnitude
		}
	}
	r, err := stream.NewReader(d.client, stream.ReaderConfig{Address: address})
	if err != nil {
		return err
	}
	begun := time.Now()
	record, err := r.Get(ctx, d.ids[strongest])
	if err != nil {
		return err
	}
	took := time.Since(begun)
	q, magnitude, err := quakeOf(&record.Message)
	d.say.step("get", took, "%s, the strongest: M %.1f, %.16s", record.ID, magnitude, q.DateTime)
	return err
}

// audit checks that the group is at its end and that the scope is sound.
func (d *demo) audit(ctx context.Context) error {
	begun := time.Now()
	if err := stream.Check(ctx, d.client, "demo"); err != nil {
		return err
	}
	left, err := d.left(ctx)
	if err == nil && left > 0 {
		err = fmt.Errorf("%d entries are still to be handled", left)
	}
	if err != nil {
		return err
	}
	d.say.step("check", time.Since(begun), "nothing unread, pending or dead; the scope is sound")
	return nil
}

// left is how many entries the group has not handled.
func (d *demo) left(ctx context.Context) (int64, error) {
	groups, err := stream.Groups(ctx, d.client, address)
	if err != nil {
		return 0, err
	}
	for _, g := range groups {
		if g.Name == groupName {
			return g.Lag + g.Pending + g.Dead, nil
		}
	}
	return int64(len(d.ids)), nil
}
