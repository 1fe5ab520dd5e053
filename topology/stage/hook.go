package stage

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
)

// hook posts messages. 2xx settles one; 408, 425, 429, 5xx, a time-out and a refused connection bring it back, when the answer
// says if it does; anything else, a redirect as well, is for the dead letters.
type hook struct {
	cfg    Webhook
	to     string
	body   *program
	client *http.Client
}

const maxRetryAfter = time.Hour

// HookError is an answer that is none of success.
type HookError struct {
	URL    string // its scheme and host
	Status int
	Body   string // its beginning
}

func (e *HookError) Error() string {
	return fmt.Sprintf("stage: webhook %s answered %d: %.200q", e.URL, e.Status, e.Body)
}

func (c *compiler) newHook(cfg Webhook, to string, other http.RoundTripper) *hook {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxConnsPerHost, transport.MaxResponseHeaderBytes = or(cfg.InFlight, 8), 64<<10
	if other == nil {
		other = transport
	}
	return &hook{
		cfg: cfg, to: to, body: c.compile(cfg.Body, anyResult, "webhook", "body"),
		client: &http.Client{
			Transport: other, Timeout: time.Duration(or(cfg.Timeout, Duration(10*time.Second))),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func (h *hook) handle(ctx context.Context, d *consumer.Delivery) error {
	body, kind, err := h.content(d)
	if err != nil {
		return permanent(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return consumer.Permanent(err)
	}
	for name, value := range h.cfg.Headers {
		request.Header.Set(name, value)
	}
	id, now := d.ID.String(), strconv.FormatInt(time.Now().Unix(), 10)
	request.Header.Set("Content-Type", kind)
	request.Header.Set("Webhook-Id", id)
	if h.cfg.Secret != "" {
		request.Header.Set("Webhook-Signature", "t="+now+",v1="+Sign(h.cfg.Secret, now, id, body))
	}
	at := request.URL.Scheme + "://" + request.URL.Host // paths and queries of hooks are secrets
	answer, err := h.client.Do(request)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = fmt.Errorf("stage: webhook %s: %w", at, failed.Err)
	}
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	most := int(or(h.cfg.MaxAnswer, 64<<10))
	text, err := io.ReadAll(io.LimitReader(answer.Body, int64(most)+1))
	switch code := answer.StatusCode; {
	case err != nil:
		return fmt.Errorf("stage: webhook %s: its answer: %w", at, err)
	case code == 408 || code == 425 || code == 429 || code >= 500:
		err := &HookError{at, code, string(text)}
		if seconds, convErr := strconv.Atoi(answer.Header.Get("Retry-After")); convErr == nil && seconds > 0 {
			return consumer.RetryAfter(err, min(time.Duration(min(seconds, 1<<20))*time.Second, maxRetryAfter))
		}
		return err
	case code < 200 || code > 299:
		return consumer.Permanent(&HookError{at, code, string(text)})
	case h.to != "" && len(text) > most:
		return consumer.Permanent(fmt.Errorf("stage: webhook %s answered more than %d bytes, which is max_answer", at, most))
	}
	answered(d, h.to, or(answer.Header.Get("Content-Type"), "text/plain"), text)
	return nil
}

// Sign is the signature of a request: the HMAC-SHA256 of "<unix seconds>.<message id>.<body>" in hexadecimal digits.
func Sign(secret, unix, id string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(unix + "." + id + "."))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// content is what is posted: the data as it is, msgpack as JSON, or what the expression makes.
func (h *hook) content(d *consumer.Delivery) (body []byte, kind string, err error) {
	if h.body == nil && d.Format == codec.FormatBytes {
		kind, _ = d.Headers.Get(codec.HeaderContentType)
		return d.Data, or(kind, "application/json"), nil
	}
	e := newEnv()
	e.set(&d.Record)
	var v any
	if h.body != nil {
		v, err = h.body.eval(e)
	} else {
		err = e.decode()
		v = e.data()
	}
	if err == nil {
		body, err = json.Marshal(v)
	}
	return body, "application/json", err
}
