package bench

import (
	"context"

	"github.com/echomq/pipeline/codec"
)

// packed is how many messages share an entry.
const packed = 100

// In packs the ceilings are those of one entry a message: that is what a pack saves.
var (
	packPublishWork = Work{
		Name: "pack-publish", What: "Publish in packs of 100, from one goroutine",
		ceiling: ceilingAppend, contestant: func(a *arena) contestant { return &publishes{arena: a, pack: packed} },
	}
	packZstdWork = Work{
		Name: "pack-zstd", What: "the same compressed with zstd, of orders in JSON",
		ceiling: ceilingAppend, contestant: func(a *arena) contestant {
			return &publishes{arena: a, pack: packed, compression: codec.Zstd}
		},
	}
	packConsumeWork = Work{
		Name: "pack-consume", What: "a consumer of packs of 100, message by message",
		ceiling: ceilingConsume, atOnce: handlers, contestant: func(a *arena) contestant { return &consumes{arena: a, pack: packed} },
	}
	packWork = Work{
		Name: "pack", What: "Publish in packs of 100 and a consumer at once",
		ceiling: ceilingBoth, atOnce: handlers, contestant: func(a *arena) contestant { return &both{arena: a, pack: packed} },
		latency: func(ctx context.Context, a *arena, l *openLoop) error { return streamLatency(ctx, a, l, packed) },
	}
)
