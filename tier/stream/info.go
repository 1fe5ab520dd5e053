package stream

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Info is a stream as the server has it.
type Info struct {
	Address tier.Address
	Brand   codec.Brand
	// Exclusive: its one writer mints the ids.
	Exclusive bool
	// Keyed: it has an index of each key's messages.
	Keyed bool
	// Partition is which one it is in, of how many, as in "3/8"; empty: its scope is no partition.
	Partition string
	Removed   bool          // by its verb
	Length    int64         // entries; a pack is one
	Added     int64         // entries ever added
	First     codec.EntryID // zero: empty
	Last      codec.EntryID // the newest id given
	Groups    int64
}

// askChunk is how many streams or groups are asked for in one write.
const askChunk = 250

// Streams yields the streams of a scope, by name. What else the scope's hash holds is left out; Check tells of it. The
// names are in memory at once, about 100 bytes for each; the rest is asked for as the loop goes on, 250 streams at a time.
// An error ends it.
func Streams(ctx context.Context, client *tier.Client, scope string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		rows, err := streamRows(ctx, client, scope)
		if err != nil {
			yield(Info{}, err)
			return
		}
		for chunk := range slices.Chunk(rows, askChunk) {
			infos := make([]Info, len(chunk))
			for i, row := range chunk {
				infos[i] = row.info(scope)
			}
			if err := describe(ctx, client, infos); err != nil {
				yield(Info{}, err)
				return
			}
			for i := range infos {
				if !yield(infos[i], nil) {
					return
				}
			}
		}
	}
}

// streamRow is a stream as its scope's hash has it.
type streamRow struct{ stream, declaration string }

func (r streamRow) info(scope string) Info {
	d, _ := parseDeclaration(r.declaration) // Check tells of what cannot be read
	return Info{
		Address: tier.Address{Scope: scope, Stream: r.stream},
		Brand:   d.brand, Exclusive: d.kind == exclusive, Keyed: d.kind == keyed, Removed: d.removed,
		Partition: strings.TrimPrefix(d.mark, tier.PartitionMark),
	}
}

// streamRows lists the streams of a scope, by name.
func streamRows(ctx context.Context, client *tier.Client, scope string) ([]streamRow, error) {
	if err := tier.CheckName("scope", scope); err != nil {
		return nil, err
	}
	var rows []streamRow
	err := client.ScanHash(ctx, tier.ScopeKey(scope), func(field, value string) {
		if name, ok := tier.StreamOfField(field); ok && tier.CheckName("stream", name) == nil {
			rows = append(rows, streamRow{name, value})
		}
	})
	slices.SortFunc(rows, func(a, b streamRow) int { return cmp.Compare(a.stream, b.stream) })
	return slices.CompactFunc(rows, func(a, b streamRow) bool { return a.stream == b.stream }), err
}

// describe fills in what the server says of logs. A declared stream without a key is empty.
func describe(ctx context.Context, client *tier.Client, infos []Info) error {
	keys, calls := make([]string, len(infos)), make([]tier.Call, len(infos))
	for i := range infos {
		keys[i] = infos[i].Address.LogKey()
		calls[i] = tier.Call{Script: describeScript, Keys: keys[i : i+1]}
	}
	// One question first: a hash that somebody has filled names streams by the thousand that never were.
	m, err := client.Do(ctx, keys[0], client.B().Exists().Key(keys...).Build())
	if err != nil {
		return err
	}
	if n, err := m.AsInt64(); err != nil || n == 0 {
		return err
	}
	for i, r := range client.RunMulti(ctx, calls...) {
		if r.Err != nil {
			return r.Err
		}
		parts, err := tier.Parts("describe", r.Message, 6)
		if err != nil {
			return err
		}
		infos[i].take(parts)
	}
	return nil
}

// take reads a reply of describe.lua.
func (i *Info) take(parts []rueidis.RedisMessage) {
	i.Length, i.Added, i.Groups = number(parts[1]), number(parts[2]), number(parts[5])
	i.First, i.Last = entryID(parts[3]), entryID(parts[4])
}

// ask is describe of one stream.
func (i *Info) ask(ctx context.Context, client *tier.Client) error {
	infos := []Info{*i}
	err := describe(ctx, client, infos)
	*i = infos[0]
	return err
}

// number is 0 where the server says nil.
func number(m rueidis.RedisMessage) int64 {
	n, _ := m.AsInt64()
	return n
}

func entryID(m rueidis.RedisMessage) codec.EntryID {
	text, _ := m.ToString()
	id, _ := codec.ParseEntryID(text)
	return id
}
