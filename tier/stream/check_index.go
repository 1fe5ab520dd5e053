package stream

import (
	"context"
	"slices"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// indexes audits those of a keyed stream: each has one row for each version from its first on, and none is of a message beyond the
// end of the log. All of their names are in memory at once.
func (c *check) indexes(ctx context.Context, addr tier.Address) error {
	prefix := addr.IndexKey("")
	keys, err := c.client.KeysBelow(ctx, prefix[:len(prefix)-1])
	if err != nil {
		return err
	}
	info := Info{Address: addr}
	if err := info.ask(ctx, c.client); err != nil {
		return err
	}
	for chunk := range slices.Chunk(keys, askChunk) {
		there, err := c.areType(ctx, chunk, "zset")
		if err != nil {
			return err
		}
		for i, key := range chunk {
			if there[i] {
				if err := c.index(ctx, key, info.Last); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (c *check) index(ctx context.Context, key string, end codec.EntryID) error {
	b := c.client.B
	results, err := c.client.DoMulti(
		ctx, key, b().Zcard().Key(key).Build(),
		b().Zrange().Key(key).Min("0").Max("0").Withscores().Build(),
		b().Zrange().Key(key).Min("-1").Max("-1").Withscores().Build(),
	)
	if err != nil {
		return err
	}
	rows, err := results[0].AsInt64()
	if err != nil {
		return tier.Wrap("ZCARD", key, err)
	}
	var ends [2]rueidis.ZScore
	for i := range ends {
		row, err := results[i+1].AsZScores()
		if err != nil {
			return tier.Wrap("ZRANGE", key, err)
		}
		if len(row) == 0 {
			return nil // it went meanwhile
		}
		ends[i] = row[0]
	}
	first, last := ends[0], ends[1]
	switch at, err := codec.ParseEntryID(last.Member); {
	case first.Score < 1 || last.Score-first.Score+1 != float64(rows):
		c.broken(key, "has %d rows for the versions %.0f to %.0f", rows, first.Score, last.Score)
	case err != nil:
		c.broken(key, "has version %.0f at %.64q, which is no address", last.Score, last.Member)
	case at.Compare(end) > 0:
		c.broken(key, "has version %.0f at %s, beyond the end of the log: the log was lost, or made anew by hand", last.Score, at)
	}
	return nil
}
