package backend

import "errors"

// The sentinels of the contract, for errors.Is. Each says which state the service may be in.
var (
	// ErrNoEntry: there is no entry under the key, or not this incarnation.
	// Nothing was written.
	ErrNoEntry = errors.New("no such entry")

	// ErrExists: the key of a CreateEphemeral is taken. Nothing was written.
	ErrExists = errors.New("entry exists")

	// ErrNoParent: the parent of a new entry does not exist. Nothing was written.
	ErrNoParent = errors.New("parent entry does not exist")

	// ErrUsedUp: the service has no more numbers for entries enqueued in the directory, for as long as the
	// directory exists. Nothing of the commit is left, or will be in a moment. Existing entries keep their
	// order. Only ZooKeeper's numbers end, after some 2^31 creations in one directory.
	ErrUsedUp = errors.New("directory is used up")

	// ErrCondition: a condition did not hold. Nothing was written.
	ErrCondition = errors.New("condition does not hold")

	// ErrConflict: all conditions held, but an entry is not as an op expects it: a CompareAndSet
	// found another version, or a Delete found children. Nothing was written.
	ErrConflict = errors.New("entry is not as expected")

	// ErrIndeterminate: the write may have happened, may not have, or may still happen, until a later
	// commit of the session with an op on the same key has succeeded (rule 5). The session removes an
	// ephemeral entry that the write may have created.
	ErrIndeterminate = errors.New("outcome unknown")

	// ErrSessionLost: the session is over. Its entries are gone, or go when the service times it out.
	// Nothing more can be done with it.
	ErrSessionLost = errors.New("session lost")

	// ErrStanding: a user of a shared session (Share) closed its part, but some of its entries could not be
	// removed. The session lives on for others, and the entries with it. The session continues to remove
	// them. Another Close tries again.
	ErrStanding = errors.New("entries still stand in the shared session")

	// ErrUnavailable: no server could be reached, or the servers that answer have not done what was asked
	// for one session timeout. Nothing was written; trying again later may help.
	ErrUnavailable = errors.New("service unavailable")

	// ErrDenied: the service refuses the credentials, or the credentials do not allow the operation.
	// Nothing was written; trying again does not help.
	ErrDenied = errors.New("access denied")

	// ErrBadKey: the key cannot be stored. Nothing was sent.
	ErrBadKey = errors.New("key not storable")

	// ErrTooLarge: the commit exceeds a limit of the service, which the error names. Nothing was sent.
	ErrTooLarge = errors.New("commit too large")
)
