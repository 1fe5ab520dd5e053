package stage

import (
	"errors"
	"io"
)

// errStopped ends a pipe that has not ended. What it had of a record that was not whole is none.
var errStopped = errors.New("stage: stopped")

// pipe reads what comes when it comes, as standard input does: nobody can interrupt that, so that it is read on a goroutine of its
// own, which ends with the next bytes, or with the process.
type pipe struct {
	chunks chan []byte
	end    error // once chunks is closed
	stop   <-chan struct{}
	idle   func() error // is called whenever nothing is there, before it is waited for
	rest   []byte
}

func newPipe(in io.Reader, stop <-chan struct{}, idle func() error) *pipe {
	p := &pipe{chunks: make(chan []byte), stop: stop, idle: idle}
	go p.pump(in)
	return p
}

func (p *pipe) pump(in io.Reader) {
	defer close(p.chunks)
	for {
		chunk := make([]byte, 64<<10)
		n, err := in.Read(chunk)
		if n > 0 {
			select {
			case p.chunks <- chunk[:n]:
			case <-p.stop:
				return
			}
		}
		if err != nil {
			p.end = err
			return
		}
	}
}

// Read implements io.Reader.
func (p *pipe) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		chunk, err := p.next()
		if err != nil {
			return 0, err
		}
		p.rest = chunk
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func (p *pipe) next() ([]byte, error) {
	select {
	case chunk, open := <-p.chunks:
		return p.given(chunk, open)
	default:
	}
	if err := p.idle(); err != nil {
		return nil, err
	}
	select {
	case chunk, open := <-p.chunks:
		return p.given(chunk, open)
	case <-p.stop:
		return nil, errStopped
	}
}

func (p *pipe) given(chunk []byte, open bool) ([]byte, error) {
	select {
	case <-p.stop:
		return nil, errStopped
	default:
	}
	if !open {
		return nil, p.end
	}
	return chunk, nil
}
