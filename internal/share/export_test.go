package share

// MaxOps is the limit of a batch.
const MaxOps = maxOps
