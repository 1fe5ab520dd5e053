package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/sourcegraph/conc/pool"

	"github.com/echomq/pipeline/tier"
)

// wire is a connection on which bytes are sent that were encoded before, and whose replies are looked at no more than is
// needed to know that the work was done. It is no client.
type wire struct{ *tier.Conn }

// readBuffer holds the replies of a few calls.
const readBuffer = 1 << 20

func dial(ctx context.Context, client *tier.Client, key string) (*wire, error) {
	w, err := client.Conn(ctx, key, readBuffer)
	if err != nil {
		return nil, err
	}
	return &wire{w}, nil
}

// ask sends one command and reads its reply.
func (w *wire) ask(ctx context.Context, words ...string) (any, error) {
	defer w.Within(ctx)()
	v, err := w.Ask(words...)
	return v, ended(ctx, words[0], err)
}

// write sends what is encoded.
func (w *wire) write(encoded []byte) error {
	w.Send(encoded)
	return w.Flush()
}

// ended prefers to what failed on a connection why it was ended.
func ended(ctx context.Context, what string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("bench: %s: %w", what, err)
}

// flow writes n chunks and reads what each is answered, with at most depth on their way.
func (w *wire) flow(ctx context.Context, what string, n, depth int, chunk func(i int) []byte, reply func(i int) error) error {
	defer w.Within(ctx)()
	room, stop := make(chan struct{}, depth), make(chan struct{})
	p := pool.New().WithErrors().WithFirstError()
	p.Go(func() error {
		for i := range n {
			select {
			case room <- struct{}{}:
			case <-stop:
				return nil
			}
			if err := w.write(chunk(i)); err != nil {
				return err
			}
		}
		return nil
	})
	var err error
	for i := 0; i < n && err == nil; i++ {
		if err = reply(i); err == nil {
			<-room
		}
	}
	if close(stop); err != nil {
		w.Close() // for who writes
	}
	return ended(ctx, what, errors.Join(err, p.Wait()))
}
