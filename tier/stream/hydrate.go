package stream

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// Latest is a value of a key, and the address of the message that it is from.
type Latest struct {
	Key   string
	At    codec.EntryID
	Value []byte
}

// A call of Hydrate carries so many keys, or bytes.
const (
	hydrateKeys  = 500
	hydrateBytes = 1 << 20
)

// ErrNoHash: something else than a hash stands where values are to go.
var ErrNoHash = errors.New("stream: the state is no hash: give another name")

// Hydrate puts values into the hash at tier.StateKey(scope, name), each in the place of an older one only: by the addresses of their
// messages, which stand in the hash of that name with .at behind it. Again, in any order, and from several at once, the newest stays.
// It answers how many were written.
//
// Errors: ErrNoHash; tier.ErrStoreFull. Some of the values may be written then.
func Hydrate(ctx context.Context, client *tier.Client, scope, name string, latest []Latest) (written int, err error) {
	if err := errors.Join(tier.CheckName("scope", scope), tier.CheckName("state", name), tier.CheckName("state", name+".at")); err != nil {
		return 0, err
	}
	keys := []string{tier.StateKey(scope, name), tier.StateKey(scope, name+".at")}
	for len(latest) > 0 {
		call := tier.Call{Script: hydrateScript, Keys: keys}
		bytes := 0
		for len(latest) > 0 && len(call.Args) < 3*hydrateKeys && (bytes == 0 || bytes+len(latest[0].Value) <= hydrateBytes) {
			l := latest[0]
			latest, bytes = latest[1:], bytes+len(l.Key)+len(l.Value)+1
			call.Args = append(call.Args, l.Key, l.At.String(), rueidis.BinaryString(l.Value))
		}
		m, err := client.Run(ctx, call)
		if err != nil {
			return written, err
		}
		code, n, err := codeAndCount("hydrate", m, 2)
		if err != nil {
			return written, err
		}
		if code != "ok" {
			return written, ErrNoHash
		}
		written += int(n)
	}
	return written, nil
}
