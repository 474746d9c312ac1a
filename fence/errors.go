package fence

import (
	"errors"

	"github.com/elector-go/elector"
)

var (
	// ErrDeposed is [elector.ErrDeposed]: a higher token has claimed. Nothing of the transaction was or
	// will be committed. The term is over, so return from the lead function. If all leaders get it, their
	// tokens have started again from the beginning: see "What a token promises" in docs/fencing.md.
	ErrDeposed = elector.ErrDeposed

	// ErrNotClaimed: the leader has not claimed with this token. Call [Fence.Claim] once per term.
	ErrNotClaimed = errors.New("not claimed")

	// ErrToken: the token is 0, which is never valid, or it does not fit the signed column.
	ErrToken = errors.New("not a token")

	// ErrIsolation: the transaction's isolation level does not allow the claim. See [Fence.ClaimTx].
	ErrIsolation = errors.New("isolation level does not allow it")

	// ErrEngine: the table's storage engine has no transactions, for example MySQL's MyISAM.
	ErrEngine = errors.New("not a table of InnoDB")
)
