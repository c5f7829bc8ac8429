// Command informer compares the informer of this module with client-go's: memory,
// first sync, events and a 410, with 100 000 realistic pods.
//
// The canned server answers lists and watches from prepared bytes, in a process of its own, so
// that it costs little. A run is one client in a process of its own that goes through all
// phases. The table compares the runs.
//
// Run it with `make bench-informer`; bench/log/diary.md says what is measured.
package main
