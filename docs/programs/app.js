// Keeps buffers for ever.
const kept = [];

function hold(count) {
  for (let i = 0; i < count; i++) kept.push(Buffer.alloc(70000, i));
}

hold(100);
console.log(kept.length);
