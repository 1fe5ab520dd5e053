package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	processes = 3
	victim    = 1   // which of them is killed
	killAfter = 700 // events of all, and
	atWork    = 20  // of its own
)

// crew are the consumers at work.
type crew struct {
	*demo
	children []*child
	reports  chan report
	begun    time.Time
	killed   time.Time // zero: not yet
	first    time.Time // of what was taken over
}

// handle lets consumers in processes of their own handle the events, and kills one.
func (d *demo) handle(ctx context.Context) (err error) {
	c := &crew{demo: d, reports: make(chan report, 1024), begun: time.Now()}
	defer func() { err = errors.Join(err, c.stop()) }()
	d.say.step("handle", 0, "%d processes of %d workers, %s an event; a lease is %s", processes, workers, workTime, lease)
	for i := range processes {
		child, err := startChild(d.cfg, d.url, fmt.Sprintf("consumer-%d", i+1), c.reports)
		if err != nil {
			return err
		}
		c.children = append(c.children, child)
	}
	if err := c.watch(ctx); err != nil {
		return err
	}
	took := time.Since(c.begun)
	d.say.step("", took, "%s of %s handled, %s; %d taken over, %d twice", number(len(d.handled)), number(len(d.ids)), rate(len(d.handled), took), len(d.takenOver), d.repeated())
	return nil
}

// watch takes reports until the group has nothing left.
func (c *crew) watch(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case r := <-c.reports:
			c.note(r)
		case <-tick.C:
			left, err := c.left(ctx)
			if err != nil {
				return err
			}
			if left == 0 && len(c.reports) == 0 && len(c.handled) >= len(c.ids) {
				return c.shown()
			}
			if c.allEnded() {
				return errors.New("all consumers have ended before the work was done")
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// shown is an error when there was nothing to see.
func (c *crew) shown() error {
	if len(c.takenOver) == 0 {
		return fmt.Errorf("%s had no work when it was to be killed: this machine is too busy to show it, try again", c.children[victim].name)
	}
	return nil
}

func (c *crew) note(r report) {
	c.handled[r.ID]++
	r.from.reports++
	if r.Attempt > 1 {
		if len(c.takenOver) == 0 {
			c.first = time.Now()
			c.say.step("", c.first.Sub(c.begun), "its lease is over: the others take over what it held")
		}
		c.takenOver[r.ID] = true
	}
	if v := c.children[victim]; c.killed.IsZero() && len(c.handled) >= killAfter && v.reports >= atWork {
		v.kill()
		c.killed = time.Now()
		c.say.step("", c.killed.Sub(c.begun), "%s is killed (SIGKILL), after %s events of all", v.name, number(len(c.handled)))
	}
}

func (c *crew) allEnded() bool {
	for _, child := range c.children {
		select {
		case <-child.ended:
		default:
			return false
		}
	}
	return len(c.reports) == 0
}

// stop ends the processes; it goes on taking reports, so that none of them waits.
func (c *crew) stop() error {
	done := make(chan error)
	go func() {
		var errs []error
		for _, child := range c.children {
			errs = append(errs, child.stop())
		}
		done <- errors.Join(errs...)
	}()
	for {
		select {
		case <-c.reports:
		case err := <-done:
			return err
		}
	}
}

func (d *demo) repeated() (n int) {
	for _, times := range d.handled {
		if times > 1 {
			n++
		}
	}
	return n
}

// networks lists the networks of the events, the largest first.
func (d *demo) networks() []string { return largestFirst(d.byNetwork()) }

func (d *demo) byNetwork() map[string]*Network {
	all := map[string]*Network{}
	for i := range d.events {
		name := strings.Clone(d.events[i].Key)
		if all[name] == nil {
			all[name] = &Network{Name: name}
		}
		n := all[name]
		n.Published++
		if i >= len(d.ids) {
			continue
		}
		id := d.ids[i]
		if d.handled[id] > 0 {
			n.Handled++
		}
		if d.handled[id] > 1 {
			n.Repeated++
		}
		if d.window[id] {
			n.Window++
		}
	}
	return all
}
