package main

import (
	"context"
	"errors"

	"github.com/echomq/pipeline/tier"
)

// watch says once that the server is away, and once that it is back: the packages
// below warn of attempts. Ask asks it something. It ends with ctx, or with stop.
func (a *app) watch(ctx context.Context, ask func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	away, ended := make(chan struct{}), make(chan struct{})
	a.away = away
	go func() {
		defer close(ended)
		for {
			select {
			case <-away: // nobody takes the next news until the server answers
				a.gone.Store(true)
			case <-ctx.Done():
				return
			}
			if answers(ctx, ask) {
				a.gone.Store(false)
				a.note("the server answers again")
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// answers waits until the server does, be it with a refusal, or ctx ends.
func answers(ctx context.Context, ask func(context.Context) error) bool {
	for failures := 1; ctx.Err() == nil; failures++ {
		class := tier.Classify(ask(ctx))
		if ctx.Err() == nil && (class == nil || class.Reaction != tier.BackOff) {
			return true
		}
		tier.Pause(ctx, tier.CallDelay(failures))
	}
	return false
}

// The warnings of the packages below of which one an outage is enough.
const (
	tailInterrupted = "tail interrupted"
	callFailed      = "call failed, it is tried again"
	appendFailed    = "append failed, it is sent again"
)

// told reports whether a warning is of what was told before, or is told by others.
func (a *app) told(message string, err error) bool {
	switch {
	case message == appendFailed:
		a.trouble.Store(&err) // which produce tells if it lasts
		return true
	case message == tailInterrupted, message == callFailed && unanswered(err):
		return !a.lost()
	}
	return false
}

// unanswered: the server cannot be had at all, in contrast to one that refuses a call.
func unanswered(err error) bool {
	for _, class := range []*tier.Class{tier.ErrUnreachable, tier.ErrNetwork, tier.ErrTimeout, tier.ErrLoading, tier.ErrMasterDown, tier.ErrClusterDown} {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}

// lasting is the reason why the server has not taken what is sent to it, as far as it has said one.
func (a *app) lasting() string {
	if err := a.trouble.Load(); err != nil && !errors.Is(*err, tier.ErrTimeout) {
		if ended := a.embeddedEnded(*err); errors.Is(ended, errEmbeddedEnded) {
			return ended.Error()
		}
		if class := tier.Classify(*err); class != nil {
			return class.Advice
		}
	}
	return "the server does not answer"
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
