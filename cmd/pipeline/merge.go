package main

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// partReader reads a partition of a stream.
type partReader struct {
	*stream.Reader
	node int // of its ids
}

// partReaders read the partitions of a stream, those in which it is declared, by the node numbers of their ids.
func partReaders(ctx context.Context, client *tier.Client, all []tier.Address) (list []partReader, err error) {
	var absent error
	for _, addr := range all {
		r, err := stream.NewReader(client, stream.ReaderConfig{Address: addr.String()})
		if err != nil {
			return nil, err
		}
		id, err := r.Identity(ctx)
		switch {
		case errors.Is(err, stream.ErrNoStream), errors.Is(err, stream.ErrStreamRemoved):
			absent = err
		case err != nil:
			return nil, err
		default:
			list = append(list, partReader{r, id.Node})
		}
	}
	slices.SortFunc(list, func(a, b partReader) int { return cmp.Compare(a.node, b.node) })
	if len(list) == 0 {
		return nil, absent
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
		records, err := p.Last(ctx, max(n, 1))
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
	readers, err := partReaders(ctx, client, all)
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
		_, err := readers[0].Last(ctx, 1)
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
