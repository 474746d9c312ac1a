package wire

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// The client library's create does not tell the zxid. So the link makes a create2 of one whose path ends with
// tellMark, and which nobody else makes while the call lasts.
const tellMark = "/tell-zxid"

// zxidLength is the size of a zxid, with which a Stat begins: that of the node's creation.
const zxidLength = 8

// Telling returns the path to create instead of path, so that the result of the client library's Create tells the
// zxid: see Created. The server creates path. The caller calls done when nothing of the call can be sent any more.
func (p *Pin) Telling(path string) (ask string, done func()) {
	ask = path + tellMark
	return ask, p.Watching(opCreate2, ask)
}

// Created takes the result of such a Create apart.
func Created(result string) (path string, zxid int64) {
	at := max(len(result)-hex.EncodedLen(zxidLength), 0)
	zxid, _ = strconv.ParseInt(result[at:], 16, 64) // with an error there is no result
	return result[:at], zxid
}

// telling returns the create of a path as it is sent. rest is what follows the path.
func (l *Link) telling(p []byte, path string, rest []byte) []byte {
	if node, is := strings.CutSuffix(path, tellMark); is && l.pin.watched.has(opCreate2, path) {
		return l.other(p, opCreate2, node, rest...)
	}
	return p
}

// created passes on the reply to a create2, which has a path and a Stat, as one to a create, with the zxid behind
// the path.
func (l *Link) created(length int) error {
	frame, err := l.whole(length)
	if err != nil {
		return err
	}
	head, body := frame[4:4+answerHead], frame[4+answerHead:]
	length = int(binary.BigEndian.Uint32(body)) // the body has as many bytes, and a Stat: see fits
	path, stat := body[4:4+length], body[4+length:]
	l.instead = appendBytes(nil, appendBytes(slices.Clone(head), hex.AppendEncode(slices.Clone(path), stat[:zxidLength])))
	return nil
}
