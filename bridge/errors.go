package bridge

import "errors"

var (
	// ErrConfig is matched by every refusal of a constructor.
	ErrConfig = errors.New("bridge: bad config")
	// ErrClosed: the publisher or the subscriber was closed before.
	ErrClosed = errors.New("bridge: closed")
	// ErrNilMessage: a message is nil. Nothing was sent.
	ErrNilMessage = errors.New("bridge: a message is nil")
	// ErrReserved: a message has metadata under MetaUUID, which is where its UUID goes. Nothing was sent.
	ErrReserved = errors.New("bridge: metadata under a key that is reserved for the UUID")
	// ErrNoUUID: a message has no UUID, and a source has nothing else to know it by.
	ErrNoUUID = errors.New("bridge: a message without a UUID")
	// ErrRan is returned by a second Run.
	ErrRan = errors.New("bridge: a source runs once: make another")
	// ErrSourceEnded: a subscriber has closed the channel of a source that was to go on.
	ErrSourceEnded = errors.New("bridge: the subscriber has closed the channel")
	// ErrDisordered: a source gives a message whose number is below one that was appended, and which was not appended itself. Either its
	// sequences were not told apart, or it keeps no order: then its messages are known by their UUIDs only.
	ErrDisordered = errors.New("bridge: the positions of a source do not ascend: tell its sequences apart, or give a Window in place of Position")
	// ErrForeign is why an entry goes to the dead letters that no publisher of this wire has written.
	ErrForeign = errors.New("bridge: an entry that is no message: another program wrote it, or in another form")
)
