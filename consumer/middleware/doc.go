// Package middleware is what stands around a [consumer.Handler]: each is a plain function from a handler to a handler, and
// [Chain] puts several around one.
//
//	h := middleware.Chain(mail, logging, tracing, breaker, middleware.Timeout(10*time.Second))
//
// # Verdicts
//
// nil, [consumer.Permanent], [consumer.RetryAfter] and [consumer.Snooze] pass through all of them as they are, wrapped at most. What
// did not call the handler, and wants its message again, snoozes it: that spends no attempt. A panic passes through all but
// [Recover], and each ends what it has begun.
//
// # Which order
//
// From the outside in, for those that are used:
//
//   - [Logging], [Tracing]: they see what the consumer sees.
//   - [Dedup], [Once]: a duplicate takes no turn of a limit, and is no success for a breaker.
//   - [RateLimit], [RateLimitByKey], [Breaker]: what they hold back costs no time of the handler.
//   - [Recover]: they see the error that it makes. A message that is given up since it makes the handler panic is no failure to
//     a breaker.
//   - [Timeout]: innermost, so that it measures the handler, and a breaker sees what it ended.
//
// # Handlers of batches
//
// A handler that is given several messages at once takes none of these, which are about one message each. Where a part of its
// work is done message by message, that part can be put into a Chain, and its error be that message's verdict. For the whole
// of a batch: a span, a timeout and a limit are three lines around it, and the tools that are used here (a context, a
// tracer, a limiter) are its caller's already.
//
// # What is not here
//
// Retries and dead letters are the consumer's (Config.Backoff, Config.MaxDeliveries), and so are metrics. Nothing here starts
// a goroutine, and only [Once] sends commands.
package middleware
