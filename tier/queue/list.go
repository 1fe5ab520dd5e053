package queue

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

const (
	// listPage is how many jobs one call reads at most.
	listPage = 100
	// listBytes is from which on a page of jobs outside the lanes ends.
	listBytes = 1 << 20
)

// Selection says which jobs are listed. The zero value: all.
type Selection struct {
	States []State // none: all
	Lane   string  // "": all
}

func (s *Selection) wants(states ...State) bool {
	return len(s.States) == 0 || slices.ContainsFunc(states, func(state State) bool { return slices.Contains(s.States, state) })
}

func (s *Selection) selects(i *Info) bool {
	return s.wants(i.State) && (s.Lane == "" || i.Lane == s.Lane)
}

// List lists jobs that are not done: those in lanes, lane by lane, as they came; then those that wait for their time, the first
// due first; those that wait for children, for the longest first; dead ones, the first to die first. It reads pages, of any
// number of jobs; a job that moves meanwhile may come twice, in each of its states, or not.
func (c *Client) List(ctx context.Context, s Selection) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		if err := s.check(); err != nil {
			yield(Info{}, err)
			return
		}
		selected := func(i Info, err error) bool { return err == nil && !s.selects(&i) || yield(i, err) }
		if s.wants(Ready, Active) && !c.listLanes(ctx, &s, selected) {
			return
		}
		if s.wants(Scheduled, Retry) && !c.listPlace(ctx, c.queue.JobsDueKey(), selected) {
			return
		}
		if s.wants(Waiting) && !c.listPlace(ctx, c.queue.WaitingKey(), selected) {
			return
		}
		if s.wants(Dead) {
			c.listPlace(ctx, c.queue.BuriedKey(), selected)
		}
	}
}

func (s *Selection) check() error {
	for _, state := range s.States {
		if !slices.Contains([]State{Ready, Active, Scheduled, Retry, Waiting, Dead}, state) {
			return fmt.Errorf("%w: there is no state %.64q", ErrBadCall, state)
		}
	}
	if s.Lane != "" {
		return tier.CheckName("lane", s.Lane)
	}
	return nil
}

// listPlace lists the jobs of a sorted set, and tells whether to go on.
func (c *Client) listPlace(ctx context.Context, place string, yield func(Info, error) bool) bool {
	keys := []string{place, c.queue.JobsKey(), c.queue.BodiesKey()}
	for ms, id, more := "-inf", "", true; more; {
		args := []string{ms, id, strconv.Itoa(listPage), strconv.Itoa(listBytes)}
		m, err := c.client.Run(ctx, tier.Call{Script: listScript, Keys: keys, Args: args})
		if err != nil {
			return yield(Info{}, err)
		}
		parts, err := tier.Parts("list", m, 2)
		if err != nil {
			return yield(Info{}, err)
		}
		if more, err = parts[0].AsBool(); err != nil {
			return yield(Info{}, err)
		}
		page, err := parts[1].AsStrSlice()
		if err != nil {
			return yield(Info{}, err)
		}
		for ; len(page) >= 4; page = page[4:] {
			id, ms = page[0], page[1]
			info, ok, err := placed(id, page[2], page[3])
			if (ok || err != nil) && !yield(info, err) {
				return false
			}
		}
	}
	return true
}

// placed reads a job outside the lanes; what is none, which Check tells, is left out.
func placed(id, row, body string) (info Info, ok bool, err error) {
	at, ok := parseRow(row)
	job, err := codec.Parse(id)
	if !ok || err != nil || at.entry != "" {
		return info, false, nil
	}
	info = Info{ID: job, State: at.state, Lane: at.lane, Attempts: at.attempts, At: at.at}
	err = info.readBody(body)
	return info, true, err
}

// listLanes lists the jobs in lanes, and tells whether to go on.
func (c *Client) listLanes(ctx context.Context, s *Selection, yield func(Info, error) bool) bool {
	lanes, list := []string{s.Lane}, c.listLane
	if !s.wants(Ready) {
		list = c.listActive
	}
	if s.Lane == "" {
		var err error
		if lanes, err = c.laneNames(ctx); err != nil {
			return yield(Info{}, err)
		}
	}
	for _, lane := range lanes {
		if !list(ctx, lane, yield) {
			return false
		}
	}
	return true
}
