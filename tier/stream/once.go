package stream

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// MinWindow and MaxWindow are the bounds of AppendOnce's window. Each key takes about 200 bytes of the server's memory for
// as long, and for ten minutes more.
const (
	MinWindow = time.Millisecond
	MaxWindow = 366 * 24 * time.Hour
)

// AppendOnce appends m, unless a message was appended to the stream under the key, by any writer, in the window before,
// by the server's clock: then id is that message's and fresh is false. The window of the call that appended counts, from
// MinWindow to MaxWindow; it is not prolonged. The key is any text but the empty one. A message that was trimmed
// meanwhile still counts; so does one that another caller appended and was not told of.
//
// The call goes out alone, by itself on the caller's goroutine: what others are appending does not wait for it, and what
// this goroutine has published may stand after it. When its reply is lost it is repeated, up to RetryFor, and still fresh.
// Not for named producers, and not for exclusive and keyed streams.
//
// Errors: those of Append.
func (w *Writer) AppendOnce(ctx context.Context, key string, window time.Duration, m codec.Message) (id codec.ID, fresh bool, err error) {
	switch {
	case w.cfg.Producer != "" || w.cfg.Exclusive || w.cfg.Keyed:
		return id, false, fmt.Errorf("%w: AppendOnce is for writers without Producer, Exclusive and Keyed (there, AppendIf tells what was appended before)", ErrBadCall)
	case key == "" || window < MinWindow || window > MaxWindow:
		return id, false, fmt.Errorf("%w: AppendOnce needs a key and a window of %s to %s", ErrBadCall, MinWindow, MaxWindow)
	}
	encoded, err := w.encodeAlone(&m)
	if err != nil {
		return id, false, err
	}
	if err := ctx.Err(); err != nil {
		return id, false, w.notSent(err)
	}
	b := &batch{parcel: parcel{messages: []string{encoded}, bytes: len(encoded)}, size: 1, since: time.Now()}
	code, err := w.once(ctx, b, onceKey{w.place.addr.SeenKey(key), rand.Text(), window})
	w.metrics.once(b, code, err)
	if err != nil {
		return id, false, err
	}
	return b.ids(0, 1)[0], code != "seen", nil
}

// onceKey is what makes a call one of AppendOnce.
type onceKey struct {
	seen   string // the key on the server
	token  string // of the call
	window time.Duration
}

// once sends the call until it is answered.
func (w *Writer) once(ctx context.Context, b *batch, k onceKey) (code string, err error) {
	declare := false
	for failures := 0; ; {
		var a answer
		if b.identity, a.err = w.identity(ctx, declare); a.err != nil {
			a.err = notDeclared(a.err)
		} else {
			a = w.call(ctx, b.onceCall(w.place.addr, k, w.out.above.load()))[0]
		}
		switch {
		case a.err != nil:
			b.unknown = b.unknown || tier.OutcomeUnknown(a.err)
			b.last = a.err
			failures++
			w.troubled(failures, a.err)
		case a.code == "undeclared":
			declare = true
		case a.code == "ok", a.code == "dup", a.code == "seen":
			b.receipt = a.receipt
			if a.code != "seen" {
				w.out.above.raise(b.receipt.first)
			}
			return a.code, nil
		default:
			return a.code, giveUp(b, refusal(a.code))
		}
		if a.err != nil && !repeatable(a.err) || b.age() > w.cfg.RetryFor {
			return "", giveUp(b, b.last)
		}
		if a.err != nil && !tier.Pause(ctx, tier.CallDelay(failures)) || ctx.Err() != nil {
			return "", giveUp(b, w.notSent(context.Cause(ctx)))
		}
		w.metrics.repeats.Inc()
	}
}

// onceCall makes the script call.
func (b *batch) onceCall(addr tier.Address, k onceKey, above codec.EntryID) tier.Call {
	return tier.Call{
		Script: onceScript,
		Keys:   []string{addr.LogKey(), k.seen, tier.ScopeKey(addr.Scope)},
		Args: []string{
			k.token, strconv.FormatInt(k.window.Milliseconds(), 10), strconv.FormatInt(producerTTL.Milliseconds(), 10),
			strconv.Itoa(b.identity.Node), tier.StreamField(addr.Stream), b.identity.text(), above.String(), b.messages[0],
		},
	}
}
