package consumer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// What waits for a message of its key is begun as soon as that is lost, by whichever worker has nothing to do, though the
// message was in a batch that waited for more.
func TestLostFromABatch(t *testing.T) {
	t.Parallel()
	first, second, other := codec.EntryID{Ms: 1}, codec.EntryID{Ms: 2}, codec.EntryID{Ms: 3}
	leased := func(e codec.EntryID, key string) tier.Leased {
		return tier.Leased{
			Entry: e, Deliveries: 1,
			Records: []codec.Record{{Addr: e, Position: codec.Position{Entry: e}, Message: codec.Message{Key: key}}},
		}
	}
	tests := []struct {
		name string
		read []tier.Leased
		held []tier.Held     // once the first is lost
		want []codec.EntryID // begun, by a worker each
	}{
		{
			name: "all of the batch",
			read: []tier.Leased{leased(first, "k"), leased(second, "k")},
			held: []tier.Held{{Entry: second}},
			want: []codec.EntryID{second},
		},
		{
			name: "a part of it",
			read: []tier.Leased{leased(first, "k"), leased(second, "k"), leased(other, "o")},
			held: []tier.Held{{Entry: second}, {Entry: other}},
			want: []codec.EntryID{second, other},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(context.Background(), 10, 1<<20, policy{base: time.Second, longest: time.Minute}, ByKey, func(int) {})
				defer d.close()
				d.takeNew(test.read)
				batches := make(chan []turn, len(test.want))
				for range test.want {
					go func() { batches <- d.beginBatch(10, time.Second) }()
					synctest.Wait() // the first of them has what can be begun
				}
				d.reconcile(test.held)
				var begun []codec.EntryID
				for range test.want {
					select {
					case batch := <-batches:
						require.Len(t, batch, 1)
						begun = append(begun, batch[0].f.entry)
					case <-time.After(time.Minute):
						require.Fail(t, "a worker sleeps while a message can be begun")
					}
				}
				require.ElementsMatch(t, test.want, begun)
			})
		})
	}
}
