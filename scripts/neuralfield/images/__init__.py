"""Images: reading and writing files, resizing, and the table of pixels that training reads."""

from neuralfield.images.image import ImageData as ImageData
from neuralfield.images.image import convert_values as convert_values
from neuralfield.images.image_facts import image_digest as image_digest
from neuralfield.images.image_facts import read_facts as read_facts
from neuralfield.images.image_facts import read_made_image as read_made_image
from neuralfield.images.image_facts import require_image as require_image
from neuralfield.images.image_facts import save_facts as save_facts
from neuralfield.images.image_facts import write_facts as write_facts
from neuralfield.images.image_file import Header as Header
from neuralfield.images.image_file import choose_mode as choose_mode
from neuralfield.images.image_file import read_header as read_header
from neuralfield.images.image_file import read_image as read_image
from neuralfield.images.image_file import read_image_bands as read_image_bands
from neuralfield.images.pixel_file import PixelFile as PixelFile
from neuralfield.images.pixel_file import write_pixel_file as write_pixel_file
from neuralfield.images.pixel_table import read_pixel_csv as read_pixel_csv
from neuralfield.images.pixel_table import write_pixel_csv as write_pixel_csv
from neuralfield.images.resizing import Overview as Overview
from neuralfield.images.resizing import resize_image as resize_image
from neuralfield.images.saving import write_bands as write_bands
from neuralfield.images.saving import write_image as write_image
