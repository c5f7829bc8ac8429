package course

// Trouble is what a reflector has to report; 0 is none. Package informer says what
// each one means.
type Trouble int

// What can be wrong between a reflector and its server.
const (
	_ Trouble = iota
	Gone
	SilentGone
	TooLarge
	WentBack
	Throttled
	Refused
	Denied
	NotServed
	Rejected
	NoStreamingList
	NoEndBookmark
	ShortWatch
	Disconnected
	Silent
	ServerError
	Undecodable
	Stale // package course never says it
	// Troubles is how many numbers are taken.
	Troubles
)
