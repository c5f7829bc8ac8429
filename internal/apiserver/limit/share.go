package limit

import "slices"

// namesOfConnection is how many users of one connection have shares of their own. Clients have
// one, or a few with several tokens.
const namesOfConnection = 4

// manyNames is the share of all further users of all connections. No user has this name: an
// authenticated one is not empty.
const manyNames = ""

// share returns the user that a request takes places as: its own, unless its connection has had too
// many others. Who can make users, with tokens for service accounts, does not make shares by
// sending them over one connection.
func (c *Conn) share(user string) string {
	if c == nil {
		return user
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.names, user) {
		return user
	}
	if len(c.names) == namesOfConnection {
		return manyNames
	}
	c.names = append(c.names, user)
	return user
}
