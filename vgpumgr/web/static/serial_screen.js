// What a serial line says, as lines of text in colours. It is never read as markup: text becomes text
// nodes, colours become classes of a fixed set. Cursor movements between lines are left out.

const MOST = 2_000; // lines that are kept
const WIDEST = 4_000; // characters of a line, the rest begins another one
const SEQUENCE = /\x1b(\[[0-9;:?]*[ -\/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\^_=>]|[()][0-9A-Z])/y;
const UNFINISHED = 256; // a sequence that is longer than this is none

/** The classes of a colour or look that is given by these numbers (SGR), after what was before. */
export function styled(before, numbers) {
  const look = {...before};
  for (let at = 0; at < numbers.length; at++) {
    const each = numbers[at];
    if (each === 0) Object.assign(look, PLAIN);
    else if (each === 1) look.bold = true;
    else if (each === 4) look.underlined = true;
    else if (each === 7) look.inverse = true;
    else if (each === 22) look.bold = false;
    else if (each === 24) look.underlined = false;
    else if (each === 27) look.inverse = false;
    else if (each >= 30 && each <= 37) look.ink = each - 30;
    else if (each === 39) look.ink = -1;
    else if (each >= 40 && each <= 47) look.ground = each - 40;
    else if (each === 49) look.ground = -1;
    else if (each >= 90 && each <= 97) look.ink = each - 82;
    else if (each >= 100 && each <= 107) look.ground = each - 92;
    else if (each === 38 || each === 48) {
      const wide = numbers[at + 1] === 5;
      const colour = wide ? nearest256(numbers[at + 2]) : nearest(numbers.slice(at + 2, at + 5));
      if (each === 38) look.ink = colour; else look.ground = colour;
      at += wide ? 2 : 4;
    }
  }
  return look;
}

const PLAIN = {ink: -1, ground: -1, bold: false, underlined: false, inverse: false};

/** One of 256 colours as one of the sixteen. */
function nearest256(number) {
  if (!(number >= 0 && number < 256)) return -1;
  if (number < 16) return number;
  if (number > 231) return nearest(Array(3).fill((number - 232) * 10 + 8));
  const part = number - 16;
  return nearest([part / 36, part / 6 % 6, part % 6].map((each) => Math.floor(each) * 51));
}

function nearest([red, green, blue]) {
  const [low, high] = [Math.min(red, green, blue), Math.max(red, green, blue)];
  if (!(low >= 0)) return -1;
  if (high - low < 40) return high < 64 ? 0 : high < 144 ? 8 : high < 208 ? 7 : 15;
  const middle = (low + high) / 2;
  return (red > middle) + 2 * (green > middle) + 4 * (blue > middle) + (high > 208 ? 8 : 0);
}

function classOf(look) {
  const [ink, ground] = look.inverse ? [look.ground, look.ink] : [look.ink, look.ground];
  const plain = look.inverse && ink < 0 && ground < 0;
  return [
    ink >= 0 ? `ink-${ink}` : "", ground >= 0 ? `ground-${ground}` : "", plain ? "inverse" : "",
    look.bold ? "bold" : "", look.underlined ? "underlined" : "",
  ].filter(Boolean).join(" ");
}

export class SerialScreen {
  constructor(place) {
    this.place = place;
    this.look = {...PLAIN};
    this.style = "";
    this.rest = "";
    this.begin();
  }

  begin() {
    this.cells = []; // [character, classes]
    this.at = 0;
    this.line = document.createElement("span");
    this.place.append(this.line);
    while (this.place.childElementCount > MOST) this.place.firstElementChild.remove();
  }

  /** Shows what has come; a sequence that is cut in two is awaited. */
  show(text) {
    const all = this.rest + text;
    this.rest = "";
    for (let at = 0; at < all.length;) {
      if (all[at] !== "\x1b") {
        const each = String.fromCodePoint(all.codePointAt(at));
        this.put(each);
        at += each.length;
        continue;
      }
      SEQUENCE.lastIndex = at;
      const found = SEQUENCE.exec(all);
      if (found) this.obey(found[0]);
      else if (all.length - at < UNFINISHED) { this.rest = all.slice(at); break; }
      at += found ? found[0].length : 1;
    }
    this.draw();
    this.place.scrollTop = this.place.scrollHeight;
  }

  put(each) {
    if (each === "\n") { this.draw(true); this.begin(); }
    else if (each === "\r") this.at = 0;
    else if (each === "\b") this.at = Math.max(0, this.at - 1);
    else if (each >= " " || each === "\t") {
      while (this.cells.length < this.at) this.cells.push([" ", ""]);
      this.cells[this.at++] = [each, this.style];
      if (this.at >= WIDEST) { this.draw(true); this.begin(); }
    }
  }

  obey(sequence) {
    const numbers = sequence.slice(2, -1).split(/[;:]/).map(Number);
    const end = sequence.startsWith("\x1b[") ? sequence.at(-1) : "";
    const count = Math.min(numbers[0] || 1, WIDEST - 1);
    if (end === "m") { this.look = styled(this.look, numbers); this.style = classOf(this.look); }
    else if (end === "K" && numbers[0] === 1) for (let at = 0; at < this.at; at++) this.cells[at] = [" ", ""];
    else if (end === "K") this.cells.length = numbers[0] === 2 ? 0 : Math.min(this.at, this.cells.length);
    else if (end === "C") this.at = Math.min(this.at + count, WIDEST - 1);
    else if (end === "D") this.at = Math.max(0, this.at - count);
    else if (end === "G") this.at = count - 1;
    else if (end === "P") this.cells.splice(this.at, count);
  }

  /** The line as spans of one look each; a text node alone where it has none. */
  draw(ended = false) {
    const parts = [];
    for (const [each, style] of this.cells) {
      if (parts.at(-1)?.style === style) parts.at(-1).text += each;
      else parts.push({style, text: each});
    }
    this.line.replaceChildren(...parts.map(({style, text}) => {
      if (!style) return document.createTextNode(text);
      const span = document.createElement("span");
      span.className = style;
      span.textContent = text;
      return span;
    }), ended ? "\n" : "");
  }
}
