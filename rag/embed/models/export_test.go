package models

// Receive copies the body of an answer to a file, for tests.
var Receive = receive
