package stage

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/sourcegraph/conc"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// ingest is the endpoint of a source. What a request brings is appended as a whole, or not at all, before it is answered: 202
// with how many there were. 400, 401, 408, 413 and 415 are the client's fault; 429 asks to come again.
type ingest struct {
	*feed
	cfg    HTTP
	writer *stream.Writer
	room   chan struct{}
	mu     sync.Mutex // of the expressions' machine
	addr   net.Addr   // once it is ready
}

func newIngest(f *feed, cfg HTTP) *ingest {
	return &ingest{feed: f, cfg: cfg, room: make(chan struct{}, or(cfg.InFlight, 64))}
}

// Addr is where it listens, once it is ready.
func (s *ingest) Addr() net.Addr { return s.addr }

// Run implements Runner.
func (s *ingest) Run(ctx context.Context) (err error) {
	if !s.ran.CompareAndSwap(false, true) {
		return consumer.ErrRan
	}
	if s.writer, err = stream.NewWriter(s.client, stream.WriterConfig{Address: s.to}); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.Listen)
	if err != nil {
		return fmt.Errorf("stage: source %s: %w", s.name, err)
	}
	timeout := time.Duration(or(s.cfg.Timeout, Duration(10*time.Second)))
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+or(s.cfg.Path, "/"), s.serve)
	server := &http.Server{Handler: mux, ReadTimeout: timeout, ReadHeaderTimeout: timeout, WriteTimeout: 2*timeout + time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	var serving conc.WaitGroup
	ended := make(chan error, 1)
	serving.Go(func() { ended <- server.Serve(listener) })
	s.addr = listener.Addr()
	close(s.ready)
	select {
	case err = <-ended:
	case <-ctx.Done():
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		if server.Shutdown(drain) != nil {
			_ = server.Close()
		}
	}
	serving.Wait()
	return err
}

func (s *ingest) serve(w http.ResponseWriter, r *http.Request) {
	answer := func(code int, format string, args ...any) { http.Error(w, fmt.Sprintf(format, args...), code) }
	if s.cfg.Token != "" && subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+s.cfg.Token)) != 1 {
		answer(http.StatusUnauthorized, "want the header Authorization: Bearer TOKEN")
		return
	}
	again := func() {
		w.Header().Set("Retry-After", "1")
		answer(http.StatusTooManyRequests, "too much is under way: send it again")
	}
	select {
	case s.room <- struct{}{}:
		defer func() { <-s.room }()
	default:
		again()
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(or(s.cfg.MaxBody, 1<<20))))
	if err != nil {
		switch {
		case errors.As(err, new(*http.MaxBytesError)):
			answer(http.StatusRequestEntityTooLarge, "the body: %v", err)
		case errors.Is(err, os.ErrDeadlineExceeded):
			answer(http.StatusRequestTimeout, "the body has not ended in time")
		default:
			answer(http.StatusBadRequest, "the body: %v", err)
		}
		return
	}
	ms, code, err := s.messages(r.Header.Get("Content-Type"), body)
	if err != nil {
		answer(code, "%v", err)
		return
	}
	if _, err = s.writer.AppendBatch(r.Context(), ms); err != nil {
		if errors.As(err, new(*stream.TooLargeError)) {
			answer(http.StatusRequestEntityTooLarge, "%v", err)
			return
		}
		if class := tier.Classify(err); tier.OutcomeUnknown(err) || class != nil && class.Reaction != tier.Surface {
			again()
		} else {
			s.log.Error("what a client sent was not appended", slog.Any("err", err))
			answer(http.StatusServiceUnavailable, "not appended")
		}
		return
	}
	s.metrics.handled.Add(float64(len(ms)))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_, _ = fmt.Fprintf(w, "{\"appended\":%d}\n", len(ms))
}

// messages are those of a body, and why it has none.
func (s *ingest) messages(contentType string, body []byte) (ms []codec.Message, code int, err error) {
	kind, _, err := mime.ParseMediaType(or(contentType, "application/json"))
	if err != nil {
		return nil, http.StatusUnsupportedMediaType, err
	}
	var parts [][]byte
	headers := contentJSON
	switch kind {
	case "application/json":
		parts = [][]byte{body}
	case "application/x-ndjson", "application/jsonl":
		parts = bytes.Split(body, []byte("\n"))
	case "text/plain":
		parts, headers = [][]byte{body}, contentText
	default:
		return nil, http.StatusUnsupportedMediaType, fmt.Errorf("%s: want application/json, application/x-ndjson or text/plain", kind)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, part := range parts {
		if part = bytes.TrimSpace(part); len(part) == 0 {
			continue
		}
		m := codec.Message{Headers: headers, Data: part}
		if kind != "text/plain" && !json.Valid(part) {
			return nil, http.StatusBadRequest, fmt.Errorf("value %d is no JSON", i+1)
		}
		if m, err = s.message(m); err != nil {
			return nil, http.StatusBadRequest, fmt.Errorf("value %d: %w", i+1, err)
		}
		ms = append(ms, m)
	}
	switch {
	case len(ms) == 0:
		return nil, http.StatusBadRequest, errors.New("the body is empty")
	case len(ms) > stream.MaxBatch:
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("%d messages, at most %d in a request", len(ms), stream.MaxBatch)
	}
	return ms, 0, nil
}
