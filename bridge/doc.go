// Package bridge makes streams a backend of Watermill: a [Publisher], and a [Subscriber] that is a thin adapter over a
// consumer.
//
// Publishing is ordered and exactly once while the publisher lives: a call whose reply is lost is repeated without a
// duplicate. Receiving is at least once: a message is settled after its Ack, comes again after a Nack and a pause, after a
// crash, and after a lease was lost, and goes to the group's dead letters when it was delivered as often as it may be. With
// SubscriberConfig.MaxInFlight 1, the default, a subscription keeps the order of its topic, nacked messages included; several
// subscribers of a group share a topic without an order among them. What is acked stands in the server as durably as the
// server writes.
//
// docs/bridge.md has the topics, the messages, and the life cycle. What the Router does with errors, retries and poison is
// Watermill's.
package bridge
