package stream_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

// at is the fixture for another stream of the scope.
func (f *fixture) at(name string) *fixture {
	other := *f
	other.address = f.addr().Scope + "/" + name
	return &other
}

// TestBrands: a brand is given, or made of the name's letters; inside a scope it belongs to one stream, for good.
func TestBrands(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		brand := func(name string, want codec.Brand) (codec.Brand, error) {
			id, err := f.at(name).writer(stream.WriterConfig{Brand: want}).Declare(f.ctx)
			return id.Brand, err
		}
		given := map[codec.Brand]string{}
		for _, tt := range []struct {
			name string
			want codec.Brand
		}{
			{"orders", "ORD"}, {"order-lines", "ORE"}, {"Orders.eu", "ORR"}, {"e_v_t", "EVT"}, {"ab", "AAA"}, {"a", "AAB"}, {"123", "SAA"}, {"...", "SAB"},
		} {
			got, err := brand(tt.name, "")
			require.NoError(t, err)
			require.Equal(t, tt.want, got, tt.name)
			require.NotContains(t, given, got)
			given[got] = tt.name
			for _, again := range []codec.Brand{"", tt.want} {
				got, err = brand(tt.name, again)
				require.NoError(t, err)
				require.Equal(t, tt.want, got)
			}
		}
		_, err := brand("new", "ORD")
		var taken *stream.BrandTakenError
		require.ErrorAs(t, err, &taken)
		require.Equal(t, stream.BrandTakenError{Brand: "ORD", Stream: "orders"}, *taken)
		require.Empty(t, f.text("HGET", tier.ScopeKey(f.addr().Scope), "stream:new"))
		_, err = brand("orders", "NEW")
		var differs *stream.BrandDiffersError
		require.ErrorAs(t, err, &differs)
		require.Equal(t, stream.BrandDiffersError{Stream: f.addr().Scope + "/orders", Have: "ORD", Ask: "NEW"}, *differs)
		_, err = f.writer(stream.WriterConfig{Brand: "NEW"}).Append(f.ctx, codec.Message{})
		require.ErrorAs(t, err, &differs)
		require.False(t, tier.OutcomeUnknown(err))
		require.Equal(t, "0", f.text("EXISTS", f.log()))
	})
}

// TestBrandsRunOut: when all brands that would suit a stream are taken, it gets any that is free; when one is wanted, or
// none is left, the writer is told.
func TestBrandsRunOut(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		key := tier.ScopeKey(f.addr().Scope)
		args := []string{key}
		for n := range 26 * 26 * 26 {
			brand := string([]byte{'A' + byte(n/676), 'A' + byte(n/26%26), 'A' + byte(n%26)})
			if brand != "QXJ" {
				args = append(args, "brand:"+brand, "other")
			}
		}
		f.do("HSET", args...)
		t.Cleanup(func() { f.do("DEL", key) }) // the audit would name each brand without a stream
		_, err := f.at("z").writer(stream.WriterConfig{Brand: "ZZZ"}).Append(f.ctx, codec.Message{})
		var taken *stream.BrandTakenError
		require.ErrorAs(t, err, &taken)
		require.Equal(t, "other", taken.Stream)

		id, err := f.at("z").writer(stream.WriterConfig{}).Append(f.ctx, codec.Message{})
		require.NoError(t, err)
		require.Equal(t, codec.Brand("QXJ"), id.Brand())
		_, err = f.at("y").writer(stream.WriterConfig{}).Append(f.ctx, codec.Message{})
		require.ErrorIs(t, err, stream.ErrBrandsExhausted)
		require.False(t, tier.OutcomeUnknown(err))
		require.Equal(t, "0", f.text("EXISTS", f.at("y").log()))
		require.Empty(t, f.text("HGET", key, "stream:y"))
	})
}

// TestDeclareAtOnce: many processes that open the same new streams agree on their brands.
func TestDeclareAtOnce(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		names := []string{"orders", "ordered", "ordering", "order", "ord"}
		var mu sync.Mutex
		brands := map[string]map[codec.Identity]bool{}
		var wg sync.WaitGroup
		for range 5 {
			client := tiertest.Dial(t, s)
			wg.Go(func() {
				for _, name := range names {
					w, err := stream.NewWriter(client, stream.WriterConfig{Address: f.addr().Scope + "/" + name})
					if err != nil {
						t.Error(err)
						return
					}
					id, err := w.Declare(f.ctx)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if brands[name] == nil {
						brands[name] = map[codec.Identity]bool{}
					}
					brands[name][id] = true
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		seen := map[codec.Brand]bool{}
		for name, ids := range brands {
			require.Len(t, ids, 1, name)
			for id := range ids {
				require.False(t, seen[id.Brand])
				seen[id.Brand] = true
			}
		}
	})
}

// TestNodeConflictWritesNothing: while hash and registry disagree about the scope's number, nothing is appended.
func TestNodeConflictWritesNothing(t *testing.T) {
	t.Parallel()
	f := setUp(t, tiertest.Private(t, tiertest.Valkey))
	w := f.writer(stream.WriterConfig{})
	f.append(w, 1)
	scope := tier.ScopeKey(f.addr().Scope)
	node := f.text("HGET", scope, "node")
	n, err := strconv.Atoi(node)
	require.NoError(t, err)
	f.do("HSET", scope, "node", strconv.Itoa((n+1)%512))
	for _, w := range []*stream.Writer{w, f.writer(stream.WriterConfig{})} {
		_, err = w.Append(f.ctx, codec.Message{})
		var conflict *tier.NodeConflictError
		require.ErrorAs(t, err, &conflict)
		require.False(t, tier.OutcomeUnknown(err))
	}
	require.Equal(t, "1", f.length())
	f.do("HSET", scope, "node", node)
	f.append(w, 1)
}

// TestDeclareComparesTheNode: a number that is not the one in the scope's hash declares nothing, also where the two were
// compared before, and the hash has changed since.
func TestDeclareComparesTheNode(t *testing.T) {
	tiertest.EachServer(t, func(t *testing.T, s *tiertest.Server) {
		f := setUp(t, s)
		id, err := f.writer(stream.WriterConfig{}).Declare(f.ctx)
		require.NoError(t, err)
		key := tier.ScopeKey(f.addr().Scope)
		before := f.text("DUMP", key)
		m, err := f.client.Run(f.ctx, tier.Call{Script: script(t, "declare"), Keys: []string{key}, Args: []string{strconv.Itoa((id.Node + 1) % 512), "new", "", "1", "NEW"}})
		require.NoError(t, err)
		reply, err := m.AsStrSlice()
		require.NoError(t, err)
		require.Equal(t, []string{"node", strconv.Itoa(id.Node)}, reply)
		require.Equal(t, before, f.text("DUMP", key))
	})
}

// FuzzDeclaration: what can be read of a stream in its scope's hash is what is written there again.
func FuzzDeclaration(f *testing.F) {
	for _, text := range []string{"ORD", "-ORD", "ORD exclusive", "-ORD exclusive", "ORD keyed", "-ORD keyed", "ORD keyed exclusive", "ORD exclusive keyed", "", "-", " exclusive", "ORD  exclusive", "ORDER", "--ORD", "ord"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		identity, removed, again, err := stream.Redeclared(text)
		if removed {
			again = tier.GoneMark + again
		}
		require.Equal(t, text, again)
		require.Equal(t, err == nil, identity.Brand.Valid())
	})
}
