package retention

import (
	"context"
	"iter"

	"github.com/sourcegraph/conc"

	"github.com/echomq/pipeline/codec"
)

// While messages are taken, the next ones are read: so many in a batch, or about so many bytes, and so many batches.
const (
	aheadMessages = 256
	aheadBytes    = 1 << 20
	aheadBatches  = 2
)

// ahead yields what read reads, on a goroutine that ends with the loop. When ctx ends before that, its cause comes last: what was read and not
// yielded is left out.
func ahead(ctx context.Context, read func(context.Context) iter.Seq2[codec.Record, error]) iter.Seq2[codec.Record, error] {
	type batch struct {
		records []codec.Record
		err     error
	}
	return func(yield func(codec.Record, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		batches := make(chan batch, aheadBatches)
		var reading conc.WaitGroup
		defer reading.Wait()
		defer stop()
		reading.Go(func() {
			defer close(batches)
			var b batch
			bytes := 0
			send := func() bool {
				select {
				case batches <- b:
					b.records, bytes = nil, 0
					return true
				case <-ctx.Done():
					return false
				}
			}
			for record, err := range read(ctx) {
				if b.err = err; err == nil {
					b.records = append(b.records, record)
					bytes += weight(&record)
				}
				if (err != nil || len(b.records) == aheadMessages || bytes >= aheadBytes) && !send() {
					return
				}
			}
			send()
		})
		for b := range batches {
			for i := range b.records {
				if !yield(b.records[i], nil) {
					return
				}
			}
			if b.err != nil {
				yield(codec.Record{}, b.err)
				return
			}
		}
		if ctx.Err() != nil {
			yield(codec.Record{}, context.Cause(ctx))
		}
	}
}

// weight is how many bytes a record holds, about.
func weight(r *codec.Record) int {
	n := len(r.Type) + len(r.Key) + len(r.Data)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	for _, field := range r.Fields {
		n += len(field)
	}
	return n
}
