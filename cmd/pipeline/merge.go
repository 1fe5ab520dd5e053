package main

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/retention"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// partReader reads a stream, or a partition of one, with its archive.
type partReader struct {
	*stream.Reader                   // what the server has
	past           *retention.Reader // and what its archive has; nil: it has none
	node           int               // of its ids
}

// Range yields messages of the archive, too.
func (r partReader) Range(ctx context.Context, from, to codec.EntryID) iter.Seq2[codec.Record, error] {
	if r.past == nil {
		return r.Reader.Range(ctx, from, to)
	}
	return r.past.Range(ctx, from, to)
}

// Get finds a message in the archive, too.
func (r partReader) Get(ctx context.Context, id codec.ID) (codec.Record, error) {
	if r.past == nil {
		return r.Reader.Get(ctx, id)
	}
	return r.past.Get(ctx, id)
}

// Last returns the newest n messages, and when n is 0 the newest that the server has.
func (r partReader) Last(ctx context.Context, n int) ([]codec.Record, error) {
	if r.past == nil || n == 0 {
		return r.Reader.Last(ctx, max(n, 1))
	}
	return r.past.Last(ctx, n)
}

// newest is the address of the newest message, zero when there is none.
func (r partReader) newest(ctx context.Context) (at codec.EntryID, err error) {
	last, err := r.Last(ctx, 1)
	if len(last) > 0 {
		at = last[0].Addr
	}
	return at, err
}

// newPartReader opens the stream, and its archive: at a store, or at that which its policy names.
func newPartReader(ctx context.Context, client *tier.Client, addr tier.Address, store string) (r partReader, err error) {
	if r.Reader, err = stream.NewReader(client, stream.ReaderConfig{Address: addr.String()}); err != nil {
		return r, err
	}
	if addr.Key != "" { // of another program, and so without a policy
		return r, nil
	}
	archived, err := openArchive(ctx, client, addr, store)
	if err != nil || archived == nil {
		return r, err
	}
	r.past, err = retention.NewReader(client, retention.ReaderConfig{Address: addr.String(), Archive: archived})
	return r, err
}

// absent: there is no stream, and so no policy.
func absent(err error) bool {
	return errors.Is(err, stream.ErrNoStream) || errors.Is(err, stream.ErrStreamRemoved)
}

// partReaders read the partitions of a stream, those in which it is declared, by the node numbers of their ids.
func partReaders(ctx context.Context, client *tier.Client, all []tier.Address, store string) (list []partReader, err error) {
	var none error
	for _, addr := range all {
		r, err := newPartReader(ctx, client, addr, store)
		if err != nil {
			return nil, err
		}
		id, err := r.Identity(ctx)
		switch {
		case absent(err):
			none = err
		case err != nil:
			return nil, err
		default:
			r.node = id.Node
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b partReader) int { return cmp.Compare(a.node, b.node) })
	if len(list) == 0 {
		return nil, none
	}
	return list, nil
}

// merged yields the messages of partitions in the order of their ids: that of the servers' milliseconds, in one of the
// partitions' node numbers, and in a partition its own. An error of one ends it.
func merged(ctx context.Context, parts []partReader, from, to codec.EntryID) iter.Seq2[codec.Record, error] {
	return func(yield func(codec.Record, error) bool) {
		heads := make([]head, 0, len(parts))
		for _, p := range parts {
			next, stop := iter.Pull2(p.Range(ctx, from, to))
			defer stop()
			if h := (head{next: next}); h.advance() {
				heads = append(heads, h)
			}
		}
		for len(heads) > 0 {
			first := 0
			for i := range heads {
				if heads[i].before(&heads[first]) {
					first = i
				}
			}
			if h := &heads[first]; !yield(h.record, h.err) || h.err != nil {
				return
			}
			if !heads[first].advance() {
				heads = slices.Delete(heads, first, first+1)
			}
		}
	}
}

// head is the next message of a partition.
type head struct {
	next   func() (codec.Record, error, bool)
	record codec.Record
	err    error
}

func (h *head) advance() (ok bool) {
	h.record, h.err, ok = h.next()
	return ok
}

// before: an error is told at once; heads stand in the order of their node numbers.
func (h *head) before(other *head) bool {
	return other.err == nil && (h.err != nil || h.record.Addr.Ms < other.record.Addr.Ms)
}

// newest are the last n messages of partitions, in the order of merged.
func newest(ctx context.Context, parts []partReader, n int) (all []codec.Record, next []codec.EntryID, err error) {
	next = make([]codec.EntryID, len(parts))
	for i, p := range parts {
		records, err := p.Last(ctx, n)
		if err != nil {
			return nil, nil, err
		}
		if len(records) > 0 {
			next[i] = records[len(records)-1].Addr.Next()
		}
		all = append(all, records...)
	}
	slices.SortStableFunc(all, func(a, b codec.Record) int { return cmp.Compare(a.Addr.Ms, b.Addr.Ms) })
	return all[max(0, len(all)-n):], next, nil
}

// parts shows the newest messages of all partitions, and goes on with what is appended to any of them, as it comes.
func (t *tail) parts(ctx context.Context, client *tier.Client, all []tier.Address) error {
	readers, err := partReaders(ctx, client, all, t.store)
	if err != nil {
		return err
	}
	out := t.app.sink()
	records, next, err := newest(ctx, readers, t.lines)
	if err != nil {
		return err
	}
	for i := range records {
		if err := out.put(&records[i], 0); err != nil {
			return err
		}
	}
	if err := out.flush(); err != nil || !t.follow {
		return err
	}
	defer t.app.watch(ctx, func(ctx context.Context) error {
		_, err := readers[0].Last(ctx, 0)
		return err
	})()
	tails, tailing := errgroup.WithContext(ctx)
	for i, r := range readers {
		tails.Go(func() error {
			for record, err := range r.Tail(tailing, next[i]) {
				if err == nil {
					err = out.show(&record)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := tails.Wait(); err != nil || t.app.done > 0 {
		return err
	}
	return context.Cause(ctx)
}
