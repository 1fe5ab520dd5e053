package projection

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier/stream"
)

// TestAFoldInMemoryAsksNobody: where all states are in memory a fold makes no call, whose answer would come behind the commit that is under
// way; that the state is there is looked at beside it.
func TestAFoldInMemoryAsksNobody(t *testing.T) {
	table, err := NewTable(nil, TableConfig[int]{ // a call would panic
		Config: Config{Address: "shop/orders", Name: "counts"},
		Fold:   func(n int, _ *consumer.Delivery) (int, error) { return n + 1, nil },
	})
	require.NoError(t, err)
	s := tableSink[int]{table}
	require.NoError(t, s.begin(t.Context(), 1, codec.EntryID{}))
	for round, expects := range []bool{false, true, true} {
		w, err := s.fold(t.Context(), &batch{deliveries: []consumer.Delivery{
			{Record: codec.Record{Message: codec.Message{Key: "a"}}},
			{Record: codec.Record{Message: codec.Message{Key: "b"}}},
			{Record: codec.Record{Message: codec.Message{Key: "a"}}},
		}})
		require.NoError(t, err)
		require.Equal(t, expects, w.expected != stream.Expected{}, "a state that is not made yet cannot be lost")
		require.Len(t, w.after, 2)
		require.Equal(t, []string{string(rune(2 * (round + 1))), string(rune(round + 1))}, []string{w.after[0].Value, w.after[1].Value})
		s.committed()
	}
}
