package main

import (
	"context"
	"errors"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// watch says once that the server is away, and once that it is back: Tail warns of
// each attempt. It ends with ctx, or with stop.
func (t *tail) watch(ctx context.Context, r *stream.Reader) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	away, ended := make(chan struct{}), make(chan struct{})
	t.app.away = away
	go func() {
		defer close(ended)
		for {
			select {
			case <-away: // nobody takes the next news until the server answers
			case <-ctx.Done():
				return
			}
			if answers(ctx, r) {
				t.app.note("the server answers again")
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// answers waits until the server does, or ctx ends.
func answers(ctx context.Context, r *stream.Reader) bool {
	for failures := 1; ctx.Err() == nil; failures++ {
		if _, err := r.Last(ctx, 1); err == nil || errors.Is(err, stream.ErrNoStream) {
			return true
		}
		tier.Pause(ctx, tier.CallDelay(failures))
	}
	return false
}

// lost reports whether an interruption is news.
func (a *app) lost() bool {
	select {
	case a.away <- struct{}{}:
		return true
	default:
		return false
	}
}

// embeddedEnded makes of an error of the connection to the embedded server one that
// says what to do: there is no address to check.
func (a *app) embeddedEnded(err error) error {
	if a.embedded && (errors.Is(err, tier.ErrUnreachable) || errors.Is(err, tier.ErrNetwork)) {
		return errEmbeddedEnded
	}
	return err
}

var errEmbeddedEnded = errors.New("the embedded server has ended: any pipeline command starts it again")
