package english

// Model is the model itself, for tests.
var Model = model
