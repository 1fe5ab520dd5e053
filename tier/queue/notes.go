package queue

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

const (
	// MaxProgress is how many bytes the progress of a job may have.
	MaxProgress = 4 << 10
	// MaxLine is how many bytes a line of a job's log may have.
	MaxLine = 4 << 10
	// DefaultLines is how many lines of its log a job keeps, where nothing else is said.
	DefaultLines = 100
	// MaxLines is how many lines of its log a job keeps at most, and how many one call adds.
	MaxLines = 1000
	// MaxLogBytes is how many bytes the lines of a job have at most; the oldest are dropped before.
	MaxLogBytes = 64 << 10
)

// Notes are how far a job is, and its log, for as long as it is not done or removed.
type Notes struct {
	Progress []byte    // as it was noted last; nil: it never was
	At       time.Time // of Progress, by the server's clock
	Lines    []Line    // the oldest first
	Dropped  int       // lines before these, which were too many
}

// Line is one of a job's log.
type Line struct {
	At   time.Time // by the server's clock
	Text string
}

// Notes reads what was noted of a job. The error is ErrNoJob when it is done, or never was.
func (c *Client) Notes(ctx context.Context, id codec.ID) (Notes, error) {
	key, rows := c.queue.NotesKey(), c.queue.JobsKey()
	b := c.client.B()
	results, err := c.client.DoMulti(ctx, key, b.Hget().Key(key).Field(id.String()).Build(), b.Hexists().Key(rows).Field(id.String()).Build())
	if err != nil {
		return Notes{}, err
	}
	if there, err := results[1].AsBool(); err != nil || !there {
		return Notes{}, errors.Join(err, c.noJob(id))
	}
	text, err := results[0].ToString()
	if rueidis.IsRedisNil(err) {
		return Notes{}, nil
	}
	if err != nil {
		return Notes{}, tier.Wrap("HGET", key, err)
	}
	n, err := notesOf(text)
	if err != nil {
		return n, fmt.Errorf("queue: the notes of %s cannot be read: %w", id, err)
	}
	return n, nil
}

// notesOf reads msgpack [progress, when, lines that there ever were, when, token, text, ...], times in unix ms.
func notesOf(text string) (n Notes, err error) {
	d := msgpack.NewDecoder(bytes.NewReader([]byte(text)))
	size, err := d.DecodeArrayLen()
	if err != nil || size < 3 {
		return n, errors.Join(err, fmt.Errorf("an array of %d", size))
	}
	var failed error
	word := func() string {
		s, err := d.DecodeString()
		failed = errors.Join(failed, err)
		return s
	}
	number := func() int64 {
		i, err := d.DecodeInt64()
		failed = errors.Join(failed, err)
		return i
	}
	progress, at, lines := word(), number(), number()
	if at > 0 {
		n.Progress, n.At = []byte(progress), time.UnixMilli(at).UTC()
	}
	for left := size - 3; left >= 3 && failed == nil; left -= 3 {
		at, _, text := number(), word(), word()
		n.Lines = append(n.Lines, Line{At: time.UnixMilli(at).UTC(), Text: text})
	}
	n.Dropped = int(lines) - len(n.Lines)
	return n, failed
}

// Progress notes how far a job is: up to MaxProgress bytes, in place of what was noted before. A handler notes it by its
// consumer.Delivery. Errors: ErrNoJob; ErrBadCall; of the server, tier.ErrStoreFull for one.
func (c *Client) Progress(ctx context.Context, id codec.ID, progress []byte) error {
	_, err := c.annotate(ctx, id, annotation{progress: true, texts: []string{string(progress)}})
	return err
}

// Log adds lines, up to MaxLine bytes each, to the log of a job, which keeps the newest, so many (0: DefaultLines) and up to
// MaxLogBytes. It returns how many are kept. The errors are those of Progress.
func (c *Client) Log(ctx context.Context, id codec.ID, keep int, lines ...string) (kept int, err error) {
	return c.annotate(ctx, id, annotation{keep: keep, texts: lines})
}

func (c *Client) annotate(ctx context.Context, id codec.ID, n annotation) (int, error) {
	if err := n.check(); err != nil {
		return 0, err
	}
	reply, err := itsLane(func(lane string) (string, error) {
		return n.write(ctx, c.client, c.queue, id.String(), lane, "", c.cfg.RetryFor)
	})
	switch {
	case err != nil:
		return 0, err
	case reply == "gone":
		return 0, c.noJob(id)
	}
	return strconv.Atoi(reply)
}

func (c *Client) noJob(id codec.ID) error { return fmt.Errorf("%w (%s in %s)", ErrNoJob, id, c.queue) }

// Progress notes how far a job is that the member holds, as Client.Progress does. The error is tier.ErrFenced when it does not
// hold it any more, whatever became of others.
func (m *Member) Progress(ctx context.Context, entry codec.EntryID, progress []byte) error {
	return m.annotate(ctx, entry, annotation{progress: true, texts: []string{string(progress)}})
}

// Log adds lines to the log of a job that the member holds, which keeps DefaultLines, as Client.Log does. The error is that of
// Progress.
func (m *Member) Log(ctx context.Context, entry codec.EntryID, lines ...string) error {
	return m.annotate(ctx, entry, annotation{texts: lines})
}

func (m *Member) annotate(ctx context.Context, entry codec.EntryID, n annotation) error {
	if err := n.check(); err != nil {
		return err
	}
	m.mu.Lock()
	h, held := m.held[entry]
	m.mu.Unlock()
	if !held {
		return tier.ErrFenced
	}
	reply, err := n.write(ctx, m.workers.client, m.workers.queue, h.job, h.lane, m.name, defaultRetryFor)
	if err != nil {
		return err
	}
	if _, err := strconv.Atoi(reply); err != nil { // it is not its any more, or in another lane
		return tier.ErrFenced
	}
	return nil
}

// annotation is what one call notes.
type annotation struct {
	progress bool // else lines
	keep     int
	texts    []string
}

func (n *annotation) check() error {
	if n.keep == 0 {
		n.keep = DefaultLines
	}
	what, most := "a line", MaxLine
	if n.progress {
		what, most = "a progress", MaxProgress
	}
	if n.keep < 0 || n.keep > MaxLines || len(n.texts) == 0 || len(n.texts) > MaxLines {
		return fmt.Errorf("%w: a log keeps up to %d lines, and a call adds 1 to %d", ErrBadCall, MaxLines, MaxLines)
	}
	for _, text := range n.texts {
		if len(text) > most {
			return fmt.Errorf("%w: %s of %d bytes is above %d", ErrBadCall, what, len(text), most)
		}
	}
	return nil
}

// write notes it, and sends that again for so long while there is no answer: by its token the script knows what it has. It is
// for a member, who has to hold the job, or for anybody, "". The reply is that of annotate.lua.
func (n *annotation) write(ctx context.Context, client *tier.Client, q tier.Queue, job, lane, member string, retryFor time.Duration) (reply string, err error) {
	what := "log"
	if n.progress {
		what = "progress"
	}
	args := append([]string{job, lane, member, what, rand.Text()[:8], strconv.Itoa(n.keep), strconv.Itoa(MaxLogBytes)}, n.texts...)
	keys := []string{q.JobsKey(), q.NotesKey(), q.LaneKey(lane), q.QueueKey(), q.Events().LogKey()}
	unknown := error(nil)
	for since, try := time.Now(), 1; ; try++ {
		m, err := client.Run(ctx, tier.Call{Script: annotateScript, Keys: keys, Args: args})
		if err == nil {
			return m.ToString()
		}
		if tier.OutcomeUnknown(err) {
			unknown = err
		}
		if !repeatable(err) || ctx.Err() != nil || time.Since(since) > retryFor || !tier.Pause(ctx, tier.CallDelay(try)) {
			if unknown != nil {
				err = unknown
			}
			return "", err
		}
	}
}
