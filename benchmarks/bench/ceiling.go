package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/echomq/pipeline/tier"
)

// A contestant does its part of a round. The works are contestants, and so are their ceilings.
type contestant interface {
	// prepare makes what the round on n messages needs, in a place that is empty. It is not measured.
	prepare(ctx context.Context, n int) error
	// run does the work on all of them, and fails when it has not.
	run(ctx context.Context) error
	// keys are those whose memory is that of the messages, before the run or after it.
	keys() []string
	// clean takes away what the round has made.
	clean(ctx context.Context) error
}

// How the ceilings put their commands on the wire: those of chunk messages in one write, so many writes on their way.
const (
	chunk       = 100
	appendDepth = 8
	readDepth   = 4
	rangeChunk  = 1000
	rawGroup    = "g"
)

// A ceiling is what works are compared with. The names are short because reports put them beside each rate.
type ceiling struct {
	name string
	what string
	make func(a *arena) contestant
}

var (
	ceilingAppend = ceiling{
		"P", "XADD of one field, 100 a write, 8 writes on their way",
		func(a *arena) contestant { return &rawAppend{arena: a} },
	}
	ceilingConsume = ceiling{
		"C", "XREADGROUP of 100 and XACK of 100, 4 on their way",
		func(a *arena) contestant { return &rawConsume{arena: a} },
	}
	ceilingBoth = ceiling{
		"E", "P, then C: all that both ask of the server's one thread",
		func(a *arena) contestant { return &rawBoth{&rawAppend{arena: a}, &rawConsume{arena: a}} },
	}
	ceilingJobs = ceiling{
		"J", "XREADGROUP of 100, XACK of 100 and XDEL of 100, 4 on their way",
		func(a *arena) contestant { return &rawConsume{arena: a, remove: true} },
	}
	ceilingRange = ceiling{
		"X", "XRANGE of 1000, 4 on their way",
		func(a *arena) contestant { return &rawRange{arena: a} },
	}
)

// part is how many messages the i-th chunk of size has, of n.
func part(i, size, n int) int { return min(size, n-i*size) }

func parts(size, n int) int { return (n + size - 1) / size }

// rawID is the id of the i-th entry of a log that a ceiling has filled.
func rawID(i int) string { return strconv.Itoa(i+1) + "-0" }

// rawAppend appends.
type rawAppend struct {
	*arena
	key        string
	n          int
	full, last []byte
}

func (r *rawAppend) prepare(_ context.Context, n int) error {
	r.key, r.n = r.address().LogKey(), n
	one := tier.AppendCommand(nil, "XADD", r.key, "*", "m", string(r.data))
	r.full, r.last = nil, nil
	for range chunk {
		r.full = append(r.full, one...)
	}
	for range part(parts(chunk, n)-1, chunk, n) {
		r.last = append(r.last, one...)
	}
	return nil
}

func (r *rawAppend) run(ctx context.Context) error {
	chunks := parts(chunk, r.n)
	return r.wire.flow(ctx, "XADD", chunks, appendDepth, func(i int) []byte {
		if i == chunks-1 {
			return r.last
		}
		return r.full
	}, func(i int) error { return r.replies(part(i, chunk, r.n)) })
}

func (r *rawAppend) replies(n int) error {
	for range n {
		if _, err := r.wire.Skip(); err != nil {
			return err
		}
	}
	return nil
}

func (r *rawAppend) keys() []string { return []string{r.key} }

func (r *rawAppend) clean(ctx context.Context) error { return r.delete(ctx, r.key) }

// fill appends n entries whose ids are known beforehand, in a log of their own.
func (a *arena) fill(ctx context.Context, n int) (key string, err error) {
	key = a.address().LogKey()
	value := string(a.data)
	var b []byte
	return key, a.wire.flow(ctx, "XADD", parts(rangeChunk, n), appendDepth, func(i int) []byte {
		b = b[:0]
		for k := range part(i, rangeChunk, n) {
			b = tier.AppendCommand(b, "XADD", key, rawID(i*rangeChunk+k), "m", value)
		}
		return b
	}, func(i int) error {
		for range part(i, rangeChunk, n) {
			if _, err := a.wire.Skip(); err != nil {
				return err
			}
		}
		return nil
	})
}

// rawConsume reads through a group and acknowledges, and deletes what it has acknowledged if it is to remove.
type rawConsume struct {
	*arena
	remove bool
	key    string
	n      int
	chunks [][]byte
}

func (r *rawConsume) prepare(ctx context.Context, n int) (err error) {
	if r.key, err = r.fill(ctx, n); err != nil {
		return err
	}
	if _, err := r.wire.ask(ctx, "XGROUP", "CREATE", r.key, rawGroup, "0"); err != nil {
		return err
	}
	r.n, r.chunks = n, make([][]byte, parts(chunk, n))
	for i := range r.chunks {
		k := part(i, chunk, n)
		b := tier.AppendCommand(nil, "XREADGROUP", "GROUP", rawGroup, "c", "COUNT", strconv.Itoa(k), "STREAMS", r.key, ">")
		ack, del := []string{"XACK", r.key, rawGroup}, []string{"XDEL", r.key}
		for j := range k {
			ack, del = append(ack, rawID(i*chunk+j)), append(del, rawID(i*chunk+j))
		}
		if b = tier.AppendCommand(b, ack...); r.remove {
			b = tier.AppendCommand(b, del...)
		}
		r.chunks[i] = b
	}
	return nil
}

func (r *rawConsume) run(ctx context.Context) error {
	return r.wire.flow(ctx, "XREADGROUP", len(r.chunks), readDepth, func(i int) []byte { return r.chunks[i] }, func(i int) error {
		if _, err := r.wire.Skip(); err != nil {
			return err
		}
		want := int64(part(i, chunk, r.n))
		counts := 1
		if r.remove {
			counts = 2
		}
		for range counts {
			if n, err := r.wire.Skip(); err != nil || n != want {
				return errors.Join(err, short("acknowledged and deleted", n, want))
			}
		}
		return nil
	})
}

func short(what string, n, want int64) error {
	if n == want {
		return nil
	}
	return fmt.Errorf("%d of %d %s", n, want, what)
}

func (r *rawConsume) keys() []string { return []string{r.key} }

func (r *rawConsume) clean(ctx context.Context) error { return r.delete(ctx, r.key) }

// rawBoth does one after the other: a server has one thread for both.
type rawBoth struct{ first, second contestant }

func (r *rawBoth) prepare(ctx context.Context, n int) error {
	if err := r.first.prepare(ctx, n); err != nil {
		return err
	}
	return r.second.prepare(ctx, n)
}

func (r *rawBoth) run(ctx context.Context) error {
	if err := r.first.run(ctx); err != nil {
		return err
	}
	return r.second.run(ctx)
}

func (r *rawBoth) keys() []string { return r.first.keys() }

func (r *rawBoth) clean(ctx context.Context) error {
	return errors.Join(r.first.clean(ctx), r.second.clean(ctx))
}

// rawRange reads a log from its beginning to its end.
type rawRange struct {
	*arena
	key string
	n   int
}

func (r *rawRange) prepare(ctx context.Context, n int) (err error) {
	r.n = n
	r.key, err = r.fill(ctx, n)
	return err
}

func (r *rawRange) run(ctx context.Context) error {
	var b []byte
	return r.wire.flow(ctx, "XRANGE", parts(rangeChunk, r.n), readDepth, func(i int) []byte {
		b = tier.AppendCommand(b[:0], "XRANGE", r.key, rawID(i*rangeChunk), "+", "COUNT", strconv.Itoa(rangeChunk))
		return b
	}, func(i int) error {
		n, err := r.wire.Skip()
		if err != nil {
			return err
		}
		return short("read", n, int64(part(i, rangeChunk, r.n)))
	})
}

func (r *rawRange) keys() []string { return []string{r.key} }

func (r *rawRange) clean(ctx context.Context) error { return r.delete(ctx, r.key) }
