package queue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// StuckParent is a job that waits for what does not come by itself.
type StuckParent struct {
	ID       codec.ID
	Why      string // what is broken of the job itself; empty: nothing
	Children []StuckChild
}

// StuckChild is an open child that has ended, or was lost.
type StuckChild struct {
	ID    codec.ID
	Queue string
	Why   string
	// Lost says that it is neither in its queue nor on its way. Otherwise it lies in an outbox that nobody delivers.
	Lost bool
}

// late is how long what lies in an outbox is on its way, and not stuck.
const late = 4 * strandedFor

// Stuck finds the jobs of a queue that wait for children which are neither in their queues nor noted, or which lie in an outbox
// for longer than it takes, and explains each. Who waits for a child that is there is not stuck, however long that takes.
// Nothing is changed; the queues may be at work.
func Stuck(ctx context.Context, client *tier.Client, queue string) ([]StuckParent, error) {
	if err := tier.CheckName("scope", queue); err != nil {
		return nil, err
	}
	w := &watch{client: client, queue: tier.Queue(queue), found: map[string]*StuckParent{}}
	err := scanSet(ctx, client, w.queue.WaitingKey(), w.parents)
	var stuck []StuckParent
	for _, id := range slices.Sorted(maps.Keys(w.found)) {
		stuck = append(stuck, *w.found[id])
	}
	return stuck, err
}

// watch looks after the parents of a queue, by pages. A child goes one way: in the outbox of its parent's queue, if its own is
// another; in its queue; its end in the outbox there; noted. It is at the next place before it leaves one. So the places
// are looked at in this order, what was noted at the beginning, too: which child is at none of them is nowhere.
type watch struct {
	client *tier.Client
	queue  tier.Queue
	found  map[string]*StuckParent
}

// kid is an open child of a parent.
type kid struct{ parent, id, queue string }

func (w *watch) parents(ctx context.Context, ids []string) error {
	var open []kid
	for _, id := range ids {
		kids, why, err := w.open(ctx, id)
		if err == nil && why != "" { // it may have gone on meanwhile
			kids, why, err = w.open(ctx, id)
		}
		if err != nil {
			return err
		}
		if open = append(open, kids...); why != "" {
			if err := w.explain(id, why); err != nil {
				return err
			}
		}
	}
	if len(open) == 0 {
		return nil
	}
	open, err := w.inOutbox(ctx, w.queue, open)
	if err != nil {
		return err
	}
	byQueue := map[string][]kid{}
	for _, k := range open {
		byQueue[k.queue] = append(byQueue[k.queue], k)
	}
	for name, kids := range byQueue {
		if err := w.elsewhere(ctx, tier.Queue(name), kids); err != nil {
			return err
		}
	}
	return nil
}

// open lists the open children of a job that waits, and tells what is wrong with the count of them.
func (w *watch) open(ctx context.Context, id string) (kids []kid, why string, err error) {
	row, err := rowsOf(ctx, w.client, w.queue, []string{id})
	if err != nil || !strings.HasPrefix(row[0], "w ") {
		return nil, "", err
	}
	fields, err := children(ctx, w.client, w.queue, id)
	if err != nil {
		return nil, "", err
	}
	for field, text := range fields {
		if field == openField {
			continue
		}
		c, err := parseChild(field, text)
		if err != nil {
			return kids, err.Error(), nil
		}
		if c.Outcome == ChildOpen {
			kids = append(kids, kid{parent: id, id: field, queue: c.Queue})
		}
	}
	switch {
	case len(fields) == 0:
		why = "waits, and nothing is known of its children"
	case len(kids) == 0:
		why = "waits, and no child is open"
	case fields[openField] != fmt.Sprint(len(kids)):
		why = fmt.Sprintf("counts %.16q open children, and has %d", fields[openField], len(kids))
	}
	return kids, why, nil
}

// elsewhere looks for children in their queue, in the outbox there, and again in what is noted.
func (w *watch) elsewhere(ctx context.Context, q tier.Queue, kids []kid) error {
	ids := make([]string, len(kids))
	for i := range kids {
		ids[i] = kids[i].id
	}
	rows, err := rowsOf(ctx, w.client, q, ids)
	if err != nil {
		return err
	}
	var missing []kid
	for i := range kids {
		if rows[i] == "" {
			missing = append(missing, kids[i])
		}
	}
	if len(missing) == 0 {
		return nil
	}
	missing, err = w.inOutbox(ctx, q, missing)
	if err != nil {
		return err
	}
	for _, k := range missing {
		fields, err := children(ctx, w.client, w.queue, k.parent)
		if err != nil {
			return err
		}
		if strings.Contains(fields[k.id], " "+string(ChildOpen)+" ") {
			err = w.child(k, "it is not in its queue, and nothing of it is on its way: the server has lost it, or another program deleted it", true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// inOutbox takes those children out that an outbox has, and explains those that it has for long.
func (w *watch) inOutbox(ctx context.Context, q tier.Queue, kids []kid) (rest []kid, err error) {
	mails, err := readOutbox(ctx, w.client, q)
	if err != nil {
		return nil, err
	}
	for _, k := range kids {
		m, there := mails[k.id]
		if !there {
			rest = append(rest, k)
		} else if time.Since(m.since) > late {
			why := "it has ended, and its parent is not told"
			if m.part {
				why = "it was not sent to its queue"
			}
			err = w.child(k, why+": no worker of "+string(q)+" delivers the outbox, or it cannot be", false)
		}
		if err != nil {
			return nil, err
		}
	}
	return rest, nil
}

func (w *watch) explain(id, why string) error {
	if w.found[id] == nil {
		parsed, err := codec.Parse(id)
		if err != nil {
			return fmt.Errorf("queue: %s: %w", w.queue.WaitingKey(), err)
		}
		w.found[id] = &StuckParent{ID: parsed}
	}
	if why != "" {
		w.found[id].Why = why
	}
	return nil
}

func (w *watch) child(k kid, why string, lost bool) error {
	id, err := codec.Parse(k.id)
	if err != nil {
		return fmt.Errorf("queue: %s: %w", w.queue.ChildrenKey(k.parent), err)
	}
	if err := w.explain(k.parent, ""); err != nil {
		return err
	}
	p := w.found[k.parent]
	if !slices.ContainsFunc(p.Children, func(c StuckChild) bool { return c.ID == id }) { // a scan may come by twice
		p.Children = append(p.Children, StuckChild{ID: id, Queue: k.queue, Why: why, Lost: lost})
	}
	return nil
}

// rowsOf are the rows of jobs; empty for one that has none.
func rowsOf(ctx context.Context, client *tier.Client, q tier.Queue, ids []string) ([]string, error) {
	key := q.JobsKey()
	rows := make([]string, 0, len(ids))
	for page := range slices.Chunk(ids, checkPage) {
		m, err := client.Do(ctx, key, client.B().Hmget().Key(key).Field(page...).Build())
		if err != nil {
			return nil, err
		}
		texts, err := tier.Texts("HMGET", m, len(page))
		if err != nil {
			return nil, err
		}
		rows = append(rows, texts...)
	}
	return rows, nil
}

// mail is the first entry of an outbox about a job.
type mail struct {
	since time.Time
	part  bool // of a flow, to be sent; else how the job ended
}

// readOutbox tells what an outbox has about each job.
func readOutbox(ctx context.Context, client *tier.Client, q tier.Queue) (map[string]mail, error) {
	key := q.OutboxKey()
	mails := map[string]mail{}
	for from := "-"; from != ""; {
		m, err := client.Do(ctx, key, client.B().Xrange().Key(key).Start(from).End("+").Count(outboxPage).Build())
		if err != nil {
			return nil, err
		}
		entries, err := m.AsXRange()
		if err != nil {
			return nil, tier.Wrap("XRANGE", key, err)
		}
		from = ""
		for _, e := range entries {
			at, err := codec.ParseEntryID(e.ID)
			if err != nil {
				return nil, err
			}
			m, id := mail{since: time.UnixMilli(int64(at.Ms))}, e.FieldValues[outboxJob]
			var part flowPart
			if text, ok := e.FieldValues[outboxPart]; ok && msgpack.Unmarshal([]byte(text), &part) == nil {
				id, m.part = part.Node.ID, true
			}
			if _, ok := mails[id]; !ok {
				mails[id] = m
			}
			from = "(" + e.ID
		}
		if len(entries) < outboxPage {
			from = ""
		}
	}
	return mails, nil
}
