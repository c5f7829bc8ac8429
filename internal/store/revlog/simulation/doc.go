// Package simulation has no code of its own: it is the test that runs a whole log
// on a simulated disk, with all its goroutines.
//
// A history is one directory from its first start on, played from one seed. A life is one
// process that uses it, until a crash at some operation of the disk or until it closes the
// log. Actors are the writers, readers, feeds and compactions of a life. The model is the
// record of all answers to the actors; every later answer is checked against it.
package simulation
