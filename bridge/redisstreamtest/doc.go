// Package redisstreamtest holds package bridge against watermill-redisstream, the backend of Watermill for Redis Streams: both
// on one topic, in one group, and a migration from the one to the other. It is a module of its own, so that nobody else depends
// on that backend and its client.
package redisstreamtest
