package share

// Version is the version of the protocol. Processes of different versions do not share a database.
const Version = 7

// MaxFrame is the largest frame in bytes: a record of the log, of 1 GiB at most, and its overhead.
// A batch of 512 MiB fits, because a write takes no more bytes beside its document and vector than
// in a record.
const MaxFrame = 1<<30 + 1<<20

// Limits of the parts of messages, in bytes unless said otherwise.
const (
	maxOps        = 512 << 20 // documents and vectors of a batch: engine.MaxBatchLen
	maxDefinition = 2 << 20   // the definition of a collection
	maxString     = 64        // program, role and version of a process
	maxErrorText  = 64 << 10  // a text of an error; longer ones are cut
	maxNesting    = 4         // levels of errors inside errors
	maxProcesses  = 1 << 16   // processes in a result
)

// The header of a frame: length of the payload u32, kind u8, checksum u32.
const (
	headerSize = 9
	sumOffset  = 5 // the checksum covers the header before it, and the payload
)

// The kinds of messages.
const (
	kindHello     = 1
	kindWelcome   = 2
	kindRefused   = 3
	kindRecords   = 4
	kindRoot      = 5
	kindDerived   = 6
	kindRelease   = 7
	kindWriteOps  = 8
	kindExclusive = 9
	kindGrant     = 10
	kindDecided   = 11
	kindCall      = 12
	kindCancel    = 13
	kindResult    = 14
	kindBye       = 15
	kindOutcome   = 16
	kindFrozen    = 17
	kindDeciding  = 18
)

// The most bytes of payload, by the size of a message.
const (
	smallPayload  = 4 << 10 // fields of fixed size and bounded strings
	middlePayload = 16 << 20
	largePayload  = MaxFrame - headerSize
)

// The kinds of Call.
const (
	CallFlush     = 1 // flush the head into segments
	CallCompact   = 2 // compact until there is nothing to gain
	CallBarrier   = 3 // nothing: the records of all acknowledged batches come before the Result
	CallProcesses = 4 // the processes that share the database
	CallCheckLog  = 5 // the damage in the log, as the error of the result
)

// The flags of an op.
const (
	flagInsert = 1 << 0 // the id must be free
	flagBound  = 1 << 1 // a collection by number, not by name
	flagVector = 1 << 2 // a vector, perhaps an empty one
	flagPatch  = 1 << 3 // a patch instead of a document
	flagText   = 1 << 4 // the patch sets the text
	flagSet    = 1 << 5 // the patch sets fields, perhaps none
	flagUnset  = 1 << 6 // the patch removes fields, perhaps none
)

// minOp is the size of the smallest op: kind, flags, the number of a name, the length of an id.
const minOp = 4

// The flags of an error.
const (
	flagDimension = 1 << 0 // the fields of a DimensionError follow
	flagCorrupt   = 1 << 1 // the fields of a CorruptError follow
)
